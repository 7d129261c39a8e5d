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
func Mutations() []Mutation {
	const (
		late      = "two clients, two sessions end, late requests"
		lost      = "two clients, replies are lost"
		again     = "a client comes again"
		past      = "one takes over past another"
		readers   = "a reader comes in beside one that is asked to go"
		died      = "a reader comes in beside one that died"
		manyDied  = "a reader with a delay, two without, a writer"
		shares    = "a writer that shares, late requests, lost replies"
		moves     = "a move whose reply is lost"
		movesDown = "a reader that moves down"
		revising  = "one that revises"
		breaking  = "a reader's lock is broken"
		removed   = "the idle lock is removed"
		markLate  = "an end is noticed late, after a removal"
		knock     = "a knock comes late, after a removal"
		delay     = "delays, a client comes again"
		delayEnds = "delays, deletes, lapses and removals"
		delayDies = "a delay, a break and a takeover"
		delayRead = "readers with delays, a writer that takes over"
	)
	one := func(g Guard, config string) Mutation { return Mutation{Without: []Guard{g}, Config: config} }
	return []Mutation{
		one(VersionInT1, late),
		one(VersionInT1Beside, readers),
		one(VersionInT3, again),
		one(VersionInT4, readers),
		one(VersionInT7, "readers, and one that takes over"),
		{Without: []Guard{VersionInT10}, Redundant: "nobody but the holder changes a G that names one exclusive holder, and the version of its node says that it still is one"},
		{Without: []Guard{OwnNodeInT10}, Redundant: "v says that the holder is the one that G was read with; a late T10 then writes what is there"},
		{Without: []Guard{VersionInT10, OwnNodeInT10}, Config: shares},
		one(VersionInBreak, breaking),
		one(VersionBeforeList, again),
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
		one(MailboxVersion, "a writer that shares is asked to go"),
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
		{Without: []Guard{SameVersion}, Redundant: "who believes in an end writes L under v before it waits, and learns then that G has changed; this spares it the write"},
		{Without: []Guard{SameVersion, MarkBeforeWait}, Config: delay},
		one(MarkBeforeWait, died),
		one(VersionInMark, died),
		one(OwnNodeInMark, markLate),
		one(LeaveVersion, delay),
		one(RemovalMindsDelay, delayEnds),
		one(RemovalVersion, delayEnds),
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
