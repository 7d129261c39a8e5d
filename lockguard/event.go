package lockguard

import (
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Event is one step in the life of a lock request. The set of events is
// closed: a type switch over the types of this file is complete.
//
// Every request begins with Waiting and ends with exactly one of NotAcquired,
// Released and Lost; after Acquired it is one of the last two, after Bypassed it
// is Released. What happens between comes in order. The hooks of a lost Hold
// still run and are told.
//
// What overrides do to a new request is told right after its Waiting, what they
// do to a waiting one when it has happened: Overridden each time that it asks for
// something else; Frozen when it is out of the queue, followed by Thawed when it
// is made again, if it is, so that it is then Queued anew; Bypassed in place of
// Acquired. Of a holder nothing of that is told: a longer lease is Extended.
// ApprovalDecided follows ApprovalPending unless the request ends, is granted or
// is frozen before.
type Event interface {
	// About says whom the event is about.
	About() Subject
	event()
}

// Subject is what all events of one request have in common.
type Subject struct {
	At       time.Time // when it happened, on the local clock
	ID       string    // of the request: the same in all its events, unique
	Scope    string
	Class    string // what its lock is counted under; "" when none is declared
	Owner    string
	Message  string
	Mode     priority.Mode
	Priority priority.Level
	Hold     string // Requirement.Hold
	Token    Token  // 0 before Acquired
	Trace    string // traceparent of the request, "" when none is made
}

// About returns s.
func (s Subject) About() Subject { return s }

// Events of a request that has not been granted.
type (
	// Waiting: a request is made. Most are granted at once.
	Waiting struct {
		Subject
		Since time.Time // when the work began to want the lock: At, or before it (WaitingSince)
	}

	// Queued: the request stands in the queue behind somebody. Told again
	// after Requeued.
	Queued struct {
		Subject
		Position int                 // 1 is next in line
		Holders  []recipes.Contender // who has the lock
	}

	// Blocked: the request is next in line, and others hold the lock than those
	// that it was told of before.
	Blocked struct {
		Subject
		Holders []recipes.Contender
	}

	// Delayed: the lock is free and the request next in line, but the hold of others
	// ended uncleanly, and they had a LockDelay. Told again when that is because of
	// others.
	Delayed struct {
		Subject
		After []recipes.Delay
		Until time.Time // on the local clock, at the latest
	}

	// Displaced: a more important request came and is next in line instead.
	Displaced struct {
		Subject
		By recipes.Contender
	}

	// Requeued: the session of the waiter ended; it queues again, its place is
	// lost.
	Requeued struct {
		Subject
		Cause error
	}

	// PreemptSent: the request asked a holder to go.
	PreemptSent struct {
		Subject
		Holder recipes.Contender
		Reason priority.Reason
		Grace  time.Duration
	}

	// Frozen: an override keeps the request from being granted. It is out of
	// the queue until Thawed.
	Frozen struct {
		Subject
		Override override.Override
	}

	// Thawed: the request is made again; one of several, in its turn.
	Thawed struct{ Subject }

	// Overridden: overrides have changed what the request asks for, before it is
	// made or while it waits. The Subject has its priority from here on.
	Overridden struct {
		Subject
		Effect override.Effect // nothing is applied: it is as declared again
	}

	// Bypassed: the work runs without the lock. Released follows at its end.
	Bypassed struct {
		Subject
		Override override.Override
	}

	// ApprovalPending: the waiting timeout of a polite request is over, its
	// holders have not finished, and somebody is to decide. An alert.
	ApprovalPending struct {
		Subject
		Holders []recipes.Contender
		Waited  time.Duration // since the first of them was asked to go
	}

	// ApprovalDecided: the request may take the lock by force, or fails.
	ApprovalDecided struct {
		Subject
		Decision Decision
		Err      error // why it may not; nil: it may
	}

	// TakenOver: the request took the lock from holders whose grace was over.
	TakenOver struct {
		Subject
		From []recipes.Contender
	}

	// NotAcquired: the request failed, and is withdrawn.
	NotAcquired struct {
		Subject
		Waited time.Duration
		Err    error
	}
)

// Events of a Hold.
type (
	// Acquired: the lock is held.
	Acquired struct {
		Subject
		Waited time.Duration // from Waiting on
	}

	// PreemptRequested: the holder is asked to go. It still holds.
	PreemptRequested struct {
		Subject
		By       recipes.Contender
		Reason   priority.Reason
		Grace    time.Duration
		Deadline time.Time // end of the grace on the local clock
		Forceful bool

		PreemptorTrace string // traceparent of the preemptor, "" when it made none

		Override *recipes.Mark // for which the preemptor asks; nil: of its own accord
	}

	// PreemptionWithdrawn: nobody asks the holder to go any more. Its context
	// stays cancelled; it cleans up and releases all the same.
	PreemptionWithdrawn struct{ Subject }

	// AtRisk: ZooKeeper has been silent for long. The lock is still held, and
	// will be lost at the deadline unless an answer comes before. Told again
	// for each silence.
	AtRisk struct {
		Subject
		Deadline time.Time // on the local clock
	}

	// RiskOver: ZooKeeper answers again after AtRisk, and the lock is held on.
	RiskOver struct{ Subject }

	// CleanupStarted: interrupted work has returned, its hooks begin.
	CleanupStarted struct {
		Subject
		Cause    error // why the work was interrupted
		Hooks    int
		Deadline time.Time // for all hooks; zero after a loss
		Since    time.Time // when the context of the work ended, on the local clock
	}

	// CleanupDone: all hooks have returned.
	CleanupDone struct {
		Subject
		Took time.Duration
		Err  error // of the hooks
	}

	// CleanupOverrun: the grace is over and the holder has not gone. It still
	// holds until it goes or the lock is taken. Told once; not for a holder
	// that had no grace.
	CleanupOverrun struct {
		Subject
		Grace       time.Duration
		WorkRunning bool // it is the work, not a hook, that has not returned
	}

	// Extended: the holder has a new lease.
	Extended struct {
		Subject
		Lease time.Duration // from now on
	}

	// Downgraded: the holder shares the lock from now on.
	Downgraded struct{ Subject }

	// Released: work and hooks have returned and the lock is given away.
	Released struct {
		Subject
		Held  time.Duration
		Cause error // why the work was interrupted; nil when it ended by itself
		Err   error // why ZooKeeper has not confirmed the release; nil when it has

		Since time.Time     // when the context of the work ended with Cause, on the local clock; else zero
		Took  time.Duration // to give the lock away; Held includes it
	}

	// Lost: the lock is no longer held, though work or hooks may still run.
	Lost struct {
		Subject
		Held time.Duration
		Err  *LostError
	}
)

// Skipped: a job did not run at an instant of its schedule. Published by the
// layer that schedules, through Guard.Observe.
type Skipped struct {
	Subject
	Job     string
	Instant time.Time // when it should have run
	Reason  string
}

// Stuck: the context of a run has ended long ago, and the work has not
// returned. Its locks are held, as far as they are, until it does. Published by
// the layer that schedules, through Guard.Observe, once for each run.
type Stuck struct {
	Subject
	Job     string
	Instant time.Time // of the schedule; zero for a run by hand
	Cause   error     // why the context has ended
	For     time.Duration
	Stack   string // of the goroutines of the run
}

func (Waiting) event()             {}
func (Queued) event()              {}
func (Blocked) event()             {}
func (Delayed) event()             {}
func (Displaced) event()           {}
func (Requeued) event()            {}
func (PreemptSent) event()         {}
func (Frozen) event()              {}
func (Thawed) event()              {}
func (Overridden) event()          {}
func (Bypassed) event()            {}
func (ApprovalPending) event()     {}
func (ApprovalDecided) event()     {}
func (TakenOver) event()           {}
func (NotAcquired) event()         {}
func (Acquired) event()            {}
func (PreemptRequested) event()    {}
func (PreemptionWithdrawn) event() {}
func (AtRisk) event()              {}
func (RiskOver) event()            {}
func (CleanupStarted) event()      {}
func (CleanupDone) event()         {}
func (CleanupOverrun) event()      {}
func (Extended) event()            {}
func (Downgraded) event()          {}
func (Released) event()            {}
func (Lost) event()                {}
func (Skipped) event()             {}
func (Stuck) event()               {}
