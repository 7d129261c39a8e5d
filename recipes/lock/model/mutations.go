package model

// A Mutation is the protocol without guards, and a configuration that is to
// find that out.
type Mutation struct {
	Without []Guard
	Config  string

	// Redundant says why no configuration can, for a guard that is not needed for
	// what the model promises. Config is empty then.
	Redundant string
}

// Mutations returns one for each guard.
//
//nolint:funlen // a table
func Mutations() []Mutation {
	const (
		late       = "two clients, two sessions end, late requests"
		lost       = "two clients, replies are lost"
		again      = "a client comes again"
		past       = "one takes over past another"
		readers    = "a reader comes in beside one that is preempted"
		died       = "a reader comes in beside one that died"
		manyDied   = "a reader with a delay, two without, a writer"
		shares     = "a writer that shares, late requests, lost replies"
		moves      = "a move whose reply is lost"
		movesDown  = "a reader that moves down"
		revising   = "one that revises"
		breaking   = "a reader's lock is broken"
		removed    = "the idle lock is removed"
		markLate   = "an end is noticed late, after a removal"
		knock      = "a knock comes late, after a removal"
		delay      = "delays, a client comes again"
		delayEnds  = "delays, deletes, lapses and removals"
		delayDies  = "a delay, a break and a takeover"
		delayRead  = "readers with delays, a writer that takes over"
		joinTwo    = "two join a hold"
		joinGone   = "a hold is joined, or the lock removed"
		joinDied   = "a hold is joined after its agent died"
		cleaning   = "a companion joins for cleanup"
		agentDied  = "the agent of a hold with a delay dies"
		resumed    = "a hold with a delay is resumed"
		resumeOld  = "a hold is resumed, or the lock removed"
		wouldShare = "a hold that would share"
		heldAgain  = "a hold is granted again"
		followed   = "a hold is followed by another of its client"
		broken     = "a hold is broken"
		lineAsked  = "a line is preempted"
		walks      = "a reader walks in"
		walksGone  = "a reader walks in, or the lock is removed"
		scouting   = "one that reads all at once comes to a client that comes again"
	)
	one := func(g Guard, config string) Mutation { return Mutation{Without: []Guard{g}, Config: config} }
	return []Mutation{
		one(VersionInT1, late),
		one(VersionInT1Beside, readers),
		one(VersionInT3, again),
		one(VersionInT4, readers),
		one(VersionInT7, "readers, and one that takes over"),
		{Without: []Guard{VersionInT10}, Redundant: "only the holder changes a G that names one exclusive holder, " +
			"and the version of its node says that it still is one"},
		{Without: []Guard{
			OwnNodeInT10,
		}, Redundant: "v says that the holder is the one that G was read with; a late T10 then writes what is there"},
		{Without: []Guard{VersionInT10, OwnNodeInT10}, Config: shares},
		one(VersionInBreak, breaking),
		one(VersionBeforeList, again),
		one(ScoutsOneVersion, scouting),
		one(OwnNodeInT3, late),
		one(OwnNodeInT4, "a late hand-over"),
		one(OwnNodeInT6, late),
		one(OwnNodeInT7, late),
		one(OwnNodeInKnock, knock),
		one(OwnWatchFirst, past),
		one(T3WritesOwnNode, past),
		one(T7WritesOwnNode, past),
		one(LookAtPredecessor, past),
		one(FirstWatchesL, readers),
		one(LookAtLWhenArmed, readers),
		one(MoveVersion, moves),
		one(MoveAtOnce, movesDown),
		one(HandOverMarksNode, past),
		one(HeirVersion, revising),
		one(MailboxVersion, "a writer that shares is preempted"),
		one(ReviseVersion, revising),
		one(RevisedReads, revising),
		one(TokenOfOwnGrant, past),
		one(TokenIsKept, late),
		one(EpochInT1, removed),
		one(EpochBeforeVersion, removed),
		one(NewGUID, lost),
		one(LateUndone, late),
		one(SyncAfterLoss, lost),
		one(Deadline, late),
		one(RememberedAlone, "a reader comes again beside another"),
		one(DelayInT1, delayDies),
		one(DelayKeptBeside, manyDied),
		one(DelayKeptByT3, died),
		one(DelayBeforeT3, delay),
		one(DelayBeforeT4, died),
		one(DelayWithHeir, delay),
		one(DelayBeforeT7, delayDies),
		one(DelayKeptByT7, delayDies),
		one(DelayKeptByBreak, delayDies),
		one(CleanEndVersion, delayRead),
		{Without: []Guard{SameVersion}, Redundant: "who believes in an end writes L under v before it waits, " +
			"and learns then that G has changed; this spares it the write"},
		{Without: []Guard{SameVersion, MarkBeforeWait}, Config: delay},
		one(MarkBeforeWait, died),
		one(VersionInMark, died),
		one(OwnNodeInMark, markLate),
		one(LeaveVersion, delay),
		one(RemovalMindsDelay, delayEnds),
		one(RemovalVersion, delayEnds),
		one(VersionInT14, joinDied),
		one(MateInT14, joinGone),
		one(MateVersionInT14, "a hold of readers"),
		one(NoJoinWhenAsked, "a hold of readers"),
		one(MailInT14, cleaning),
		one(DeadStayNamed, joinDied),
		one(DelayKeptByT14, agentDied),
		one(VersionInT15, joinDied),
		one(MateInT15, resumeOld),
		one(MateVersionInT15, resumed),
		one(MailInT15, resumed),
		one(AdoptedForgotten, "two adopt a hold"),
		one(DelayKeptByT15, agentDied),
		one(VersionInT16, wouldShare),
		one(EpochInT16, resumeOld),
		one(NamedInT16, wouldShare),
		one(AloneInT16, joinDied),
		one(DelayKeptByT16, resumed),
		one(TokenOfHold, followed),
		one(TokenOfReference, heldAgain),
		one(NewTokenNamesNone, "a hold is resumed by a new token"),
		one(DelayOfCompanion, resumed),
		one(SyncBeforeSeeking, "a hold is adopted"),
		one(SeekingSameVersion, resumed),
		one(CompanionLooks, followed),
		one(VersionInT4OfCompanion, followed),
		one(VersionInT5OfCompanion, joinDied),
		one(FirstWatchesLOfHold, joinTwo),
		one(DelayWatchesL, resumed),
		one(NoDowngradeOfHold, wouldShare),
		one(BreakTakesAll, broken),
		one(BreakForgetsDead, broken),
		one(VersionInT18, walks),
		one(EpochInT18, walksGone),
		{Without: []Guard{OpenBesideReaders}, Redundant: "the first waiter watches L while others share the lock, " +
			"finds it open and shuts it; this spares it that write"},
		one(ShutBeforeT1, walks),
		one(ShutBeforeT3, walks),
		one(NoT4WhileOpen, walks),
		one(EpochInShut, walksGone),
		one(PassVersion, lineAsked),
		one(PassUnasked, lineAsked),
		one(PassLostReads, lineAsked),
	}
}

// Find returns a configuration by its name.
func Find(name string) (Config, bool) {
	for _, all := range [][]Config{Bounded(), Narrow(), Large()} {
		for _, c := range all {
			if c.Name == name {
				return c, true
			}
		}
	}
	return Config{}, false
}
