package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A Timeline is what happened to one lock.
type Timeline struct {
	Scope string    `json:"scope"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Known time.Time `json:"known,omitzero"` // nothing is known before, but of those who were there then
	Rows  []Row     `json:"rows"`           // one for each request, in the order of joining
	Marks []Mark    `json:"marks"`          // in the order of time
}

// A Row is a request.
type Row struct {
	ID       string         `json:"id"`
	Owner    string         `json:"owner"`
	Host     string         `json:"host"`
	PID      int            `json:"pid"`
	Priority priority.Level `json:"priority"`
	Mode     priority.Mode  `json:"mode"`
	Message  string         `json:"message"`
	Spells   []Spell        `json:"spells"` // in the order of time, without gaps
}

// A Spell is a time in which a request did one thing.
type Spell struct {
	Kind  SpellKind  `json:"kind"`
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to,omitzero"`     // zero: it goes on
	Token lock.Token `json:"token,omitempty"` // of a holder
	End   SpellEnd   `json:"end,omitempty"`   // "": it goes on
}

// A SpellKind is what a request does in a Spell.
type SpellKind string

// The kinds of spells.
const (
	SpellWaiting SpellKind = "waiting"
	SpellHolding SpellKind = "holding"
	SpellLeaving SpellKind = "leaving" // it holds and has been preempted
)

// A SpellEnd is how a Spell ended.
//
// A look at a lock comes a tenth of a second after the one before, at the soonest,
// and holds that began and ended in between are not seen. How a hold ended follows
// from what the tree tells: the record of evictions (EndTaken), the preemptions that
// stood in its mailbox (EndPreempted, EndLeaseExpired), and
//
//   - EndReleased, if its successor was granted in the transaction in which it went,
//     if it has a lock-delay and left no note of it, or if its session was granted
//     a lock later: then it has not ended;
//   - EndLost, if it left the note of its lock-delay, if its successor found the lock
//     without its holder, having waited for a second at least, or if its session
//     left another lock in the same transaction, as all does when a session ends;
//   - else EndGone: the node of a holder that releases a lock for which no request waits
//     vanishes as that of one whose process has died, and nothing tells which it was.
//     It becomes one of the above when something does.
//
// Of the holds of this process Board.Observe knows better. What ended while
// ZooKeeper did not answer, without a trace, is EndUnknown.
type SpellEnd string

// The ends of spells.
const (
	EndGranted SpellEnd = "granted" // of waiting: it got the lock
	// of waiting: it gave up, or its process has gone, or it had the lock for too short a time to be seen
	EndLeft         SpellEnd = "left"
	EndReleased     SpellEnd = "released"      // released without a preemption
	EndGone         SpellEnd = "gone"          // released or lost: ZooKeeper does not tell which
	EndPreempted    SpellEnd = "preempted"     // of holding: it was preempted; of leaving: it went
	EndLeaseExpired SpellEnd = "lease_expired" // likewise, because its lease was over
	EndTaken        SpellEnd = "taken"         // the lock was taken away, by a request or an operator
	EndLost         SpellEnd = "lost"          // its process or its session has gone
	EndUnknown      SpellEnd = "unknown"       // not watched
)

// A Mark is a moment that concerns two requests, or a request and an operator.
type Mark struct {
	At   time.Time `json:"at"`
	Kind MarkKind  `json:"kind"`
	// ID of the one who acts, as far as it is one; for a handover, of the one who gives
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"` // ID of the other
	Text string `json:"text"`
}

// A MarkKind is what a Mark is about.
type MarkKind string

// The kinds of marks.
const (
	MarkPreempt  MarkKind = "preempt"  // From preempts To
	MarkTakeover MarkKind = "takeover" // From takes the lock from To
	MarkBreak    MarkKind = "break"    // an operator takes it from To
	MarkHandover MarkKind = "handover" // From gives it to To
)
