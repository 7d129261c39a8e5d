package model

import (
	"fmt"
	"strings"
)

// maxRequests is how many requests a state has room for.
const maxRequests = 4

// A Request is one request for the lock, for good. A client makes its requests
// one after the other.
type Request struct {
	Client     int
	Shared     bool
	Priority   int
	Forceful   bool // takes the lock when the grace is over
	Downgrades bool // may share the lock that it holds alone (T10)
	Revises    bool // may rewrite its data while it waits (T13)
	Becomes    int  // the request that it may move to (T12); 0: none
	Turns      int  // how many stand behind it in its line (T17)
	Delay      bool // declares a lock delay
	Hold       int  // the id of its hold; 0: none
	Role       Role // how it comes to hold
	Blind      bool // its reference is from before the grant, and tells no token
	Of         int  // the request that its reference names, if it is not one that queues
}

// A Role is how a request comes to hold the lock.
type Role uint8

// The roles.
const (
	Queues Role = iota // T1 to T8
	Joins              // T14
	Cleans             // T14 for cleanup: although the hold is preempted
	Adopts             // T15, T14 or T16
)

// A Config is who contends for one lock, and what may go wrong, how often.
type Config struct {
	Name     string
	Requests []Request
	Lag      int // servers are up to so many transactions behind, at most 2

	Expiries   int // sessions that end on the server
	LostReply  int // connections that break at a write, executed or not
	Late       int // requests that are sent under the next session
	Leases     int // holders whose lease ends
	Breaks     int // operators who break a lock
	Deletes    int // contenders that an administrator deletes
	Removals   int // removals of the idle lock
	Lapses     int // holders that give up by their own clock, and keep the session
	NoGiveUp   bool
	Foresees   bool // holders hand over by a list from before their grant
	Scouts     bool // a request that has joined reads its own node, G and the list in any order
	Opens      bool // readers open the lock for each other, and walk in
	Open       bool // it is open when it begins
	Knocks     bool
	Idle       int  // version that the idle lock begins with
	Held       bool // A holds the lock when it begins
	NoFastPath bool // no client remembers versions
}

// validate reports what the model has no room for.
func (c *Config) validate() error {
	if len(c.Requests) > maxRequests || c.Lag > maxLag {
		return fmt.Errorf("model %q: at most %d requests and a lag of %d", c.Name, maxRequests, maxLag)
	}
	for i, r := range c.Requests {
		if r.Role != Queues && (r.Hold == 0 || r.Of >= len(c.Requests) || r.Of == i || c.Requests[r.Of].Hold != r.Hold) {
			return fmt.Errorf("model %q: the reference of request %d names none of its hold", c.Name, i)
		}
		if r.Turns > 0 && (r.Shared || r.Delay || r.Hold != 0 || r.Downgrades) {
			return fmt.Errorf("model %q: request %d has what does not stand in line", c.Name, i)
		}
	}
	return nil
}

// A Guard is something that the protocol insists on.
type Guard uint8

// Protocol is the protocol without some of its guards. The zero value has them
// all.
type Protocol [2]uint64

// Without returns the protocol that lacks these guards.
func Without(missing ...Guard) (p Protocol) {
	for _, g := range missing {
		p[g/64] |= 1 << (g % 64)
	}
	return p
}

//go:norace
func (p *Protocol) lacks(g Guard) bool { return p[g/64]&(1<<(g%64)) != 0 }

// String names the guards that are missing.
func (p Protocol) String() string {
	var missing []string
	for _, g := range Guards() {
		if p.lacks(g) {
			missing = append(missing, g.String())
		}
	}
	return strings.Join(missing, "; ")
}

// The guards. Those of the lock delay matter only where a request declares one.
const (
	NoGuard Guard = iota
	VersionInT1
	VersionInT1Beside
	VersionInT3
	VersionInT4
	VersionInT7
	VersionInT10
	VersionInBreak
	VersionBeforeList
	ScoutsOneVersion
	OwnNodeInT3
	OwnNodeInT4
	OwnNodeInT6
	OwnNodeInT7
	OwnNodeInT10
	OwnNodeInKnock
	OwnWatchFirst
	T3WritesOwnNode
	T7WritesOwnNode
	LookAtPredecessor
	FirstWatchesL
	LookAtLWhenArmed
	MoveVersion
	MoveAtOnce
	HandOverMarksNode
	HeirVersion
	MailboxVersion
	ReviseVersion
	RevisedReads
	TokenOfOwnGrant
	TokenIsKept
	EpochInT1
	EpochBeforeVersion
	NewGUID
	LateUndone
	SyncAfterLoss
	Deadline
	RememberedAlone
	DelayInT1
	DelayKeptBeside
	DelayKeptByT3
	DelayBeforeT3
	DelayBeforeT4
	DelayWithHeir
	DelayBeforeT7
	DelayKeptByT7
	DelayKeptByBreak
	CleanEndVersion
	SameVersion
	MarkBeforeWait
	VersionInMark
	OwnNodeInMark
	LeaveVersion
	RemovalMindsDelay
	RemovalVersion
	VersionInT14
	MateInT14
	MateVersionInT14
	NoJoinWhenAsked
	MailInT14
	DeadStayNamed
	DelayKeptByT14
	VersionInT15
	MateInT15
	MateVersionInT15
	MailInT15
	AdoptedForgotten
	DelayKeptByT15
	VersionInT16
	EpochInT16
	NamedInT16
	AloneInT16
	DelayKeptByT16
	TokenOfHold
	TokenOfReference
	NewTokenNamesNone
	DelayOfCompanion
	SyncBeforeSeeking
	SeekingSameVersion
	CompanionLooks
	VersionInT4OfCompanion
	VersionInT5OfCompanion
	FirstWatchesLOfHold
	DelayWatchesL
	NoDowngradeOfHold
	BreakTakesAll
	BreakForgetsDead
	PassVersion
	PassUnasked
	PassLostReads
	VersionInT18
	EpochInT18
	OpenBesideReaders
	ShutBeforeT1
	ShutBeforeT3
	NoT4WhileOpen
	EpochInShut
	guards
)

// Guards returns all guards.
func Guards() []Guard {
	all := make([]Guard, 0, guards-1)
	for g := NoGuard + 1; g < guards; g++ {
		all = append(all, g)
	}
	return all
}

var guardNames = [guards]string{
	NoGuard:            "none",
	VersionInT1:        "v in T1",
	VersionInT1Beside:  "v in T1 beside others",
	VersionInT3:        "v in T3",
	VersionInT4:        "v in the T4 of a shared holder",
	VersionInT7:        "v in T7",
	VersionInT10:       "v in T10",
	VersionInBreak:     "v in a break",
	VersionBeforeList:  "v read before the list",
	ScoutsOneVersion:   "G and list of one version when they are read at once",
	OwnNodeInT3:        "the own node in T3",
	OwnNodeInT4:        "the own node in T4",
	OwnNodeInT6:        "the own node in T6",
	OwnNodeInT7:        "the own node in T7",
	OwnNodeInT10:       "the own node in T10",
	OwnNodeInKnock:     "the own node in a knock",
	OwnWatchFirst:      "the own watch armed before reading",
	T3WritesOwnNode:    "T3 writes the own node",
	T7WritesOwnNode:    "T7 writes the own node",
	LookAtPredecessor:  "the one in front found granted when its watch is armed",
	FirstWatchesL:      "the first waiter watches L behind shared holders",
	LookAtLWhenArmed:   "v looked at again when that watch is armed",
	MoveVersion:        "the version in a move",
	MoveAtOnce:         "a move in one transaction",
	HandOverMarksNode:  "T4 writes the heir's node, not L alone",
	HeirVersion:        "the heir's version in T4",
	MailboxVersion:     "the holder's version in T6",
	ReviseVersion:      "the version in T13",
	RevisedReads:       "after T13 an event is no proof of a grant",
	TokenOfOwnGrant:    "the token taken from the own node, not from L",
	TokenIsKept:        "the token kept by later writers",
	EpochInT1:          "the epoch in T1",
	EpochBeforeVersion: "the epoch read before v",
	NewGUID:            "a new guid for every attempt",
	LateUndone:         "creations that come late are undone",
	SyncAfterLoss:      "sync after a lost reply",
	Deadline:           "a hold ends before its session can",
	RememberedAlone:    "v remembered only of a grant beside no other",
	DelayInT1:          "T1 heeds a delay in G",
	DelayKeptBeside:    "T1 beside others keeps the delays of the dead",
	DelayKeptByT3:      "T3 beside others keeps the delays of the dead",
	DelayBeforeT3:      "T3 waits the delay out",
	DelayBeforeT4:      "no hand-over while a delay of the dead is in G",
	DelayWithHeir:      "T4 writes the heir's delay",
	DelayBeforeT7:      "T7 grants nothing where a delay is due",
	DelayKeptByT7:      "T7 keeps the delay of the holder that it evicts",
	DelayKeptByBreak:   "a break keeps the delay",
	CleanEndVersion:    "v in the clean end of a shared holder",
	SameVersion:        "G and list of one version before an end is believed",
	MarkBeforeWait:     "who waits a lock delay out writes L first",
	VersionInMark:      "v in the noticing of an unclean end",
	OwnNodeInMark:      "the own node in the noticing of an unclean end",
	LeaveVersion:       "the version in T8",
	RemovalMindsDelay:  "no removal while a delay is in G",
	RemovalVersion:     "v in a removal",

	VersionInT14:           "v in T14",
	MateInT14:              "the companion's node in T14",
	MateVersionInT14:       "the companion's version in T14",
	NoJoinWhenAsked:        "no T14 while the hold is preempted",
	MailInT14:              "the mailbox copied in a T14 for cleanup",
	DeadStayNamed:          "the dead of the hold stay in G",
	DelayKeptByT14:         "T14 keeps the delays of the dead",
	VersionInT15:           "v in T15",
	MateInT15:              "the node of the one that T15 replaces",
	MateVersionInT15:       "the version of the one that T15 replaces",
	MailInT15:              "the mailbox carried over in T15",
	AdoptedForgotten:       "the replaced one is taken out of G",
	DelayKeptByT15:         "T15 keeps the delay of the one that it replaces",
	VersionInT16:           "v in T16",
	EpochInT16:             "the epoch in T16",
	NamedInT16:             "G names the one that T16 replaces",
	AloneInT16:             "no member in G lives at T16",
	DelayKeptByT16:         "T16 keeps the delays of the dead",
	TokenOfHold:            "the token of the hold in T14, T15 and T16",
	TokenOfReference:       "T14 by a reference of this very grant",
	NewTokenNamesNone:      "a T16 by a new token names no other",
	DelayOfCompanion:       "T14, T15 and T16 write the own delay",
	SyncBeforeSeeking:      "sync before a reference is looked for",
	SeekingSameVersion:     "G and list of one version before a reference is given up",
	CompanionLooks:         "a companion that lets go looks who else holds",
	VersionInT4OfCompanion: "v in the T4 of a companion",
	VersionInT5OfCompanion: "v in the T5 of a companion",
	FirstWatchesLOfHold:    "the first waiter watches L behind companions",
	DelayWatchesL:          "who waits out the delay of a hold watches L",
	NoDowngradeOfHold:      "no T10 of a hold that may be resumed",
	BreakTakesAll:          "a break takes all companions",
	BreakForgetsDead:       "a break forgets the dead companions",
	PassVersion:            "the version in T17",
	PassUnasked:            "no T17 while the holder is preempted",
	VersionInT18:           "v in T18",
	EpochInT18:             "the epoch in T18",
	OpenBesideReaders:      "a reader that sees an exclusive request does not open the lock",
	ShutBeforeT1:           "an open lock is shut before T1",
	ShutBeforeT3:           "an open lock is shut before T3 and T7",
	NoT4WhileOpen:          "no T4 while the lock is open",
	EpochInShut:            "the epoch in the shutting by a newcomer",
	PassLostReads:          "the mailbox read after a T17 whose reply is lost",
}

func (g Guard) String() string { return guardNames[g] }
