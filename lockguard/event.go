package lockguard

import (
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An Event is a notice with its subject: one step in the life of a lock request.
// A reader switches over the type of its Notice. The notices that the lock itself
// tells are those of package lock, passed on as they are. This file declares
// what only the Guard and the layers above it know. The set of both is closed.
// Not passed on are Joined, Revised, CleanupPending and PendingOver; lock.Lost
// becomes Lost.
//
// Every request begins with Waiting and ends with exactly one of NotAcquired,
// Released and Lost; after Acquired it is one of the last two, after Bypassed it
// is Released. What happens between comes in order. The hooks of a lost Hold
// still run and are reported.
//
// What overrides do to a new request is reported right after its Waiting, what they
// do to a waiting one when it has happened: Overridden each time that its terms
// change; Frozen when it is out of the queue, followed by Thawed when it
// is made again, if it is, so that it is then Queued anew; Bypassed in place of
// Acquired. Of a holder nothing of that is reported: a longer lease is Extended.
// ApprovalDecided follows ApprovalPending unless the request ends, is granted or
// is frozen before.
type Event struct {
	Subject
	lock.Notice
}

// Subject is what all events of one request have in common.
type Subject struct {
	At    time.Time // when it happened, on the local clock
	ID    string    // of the request: the same in all its events, unique
	Scope string

	priority.Identity // of the request; Host and PID, those of this process, are not set

	Mode     priority.Mode
	Priority priority.Level
	Token    Token // 0 before Acquired
}

// Notices of a request that has not been granted.
type (
	// Waiting: a request is made. Most are granted at once.
	Waiting struct {
		Since time.Time // when the work began to want the lock: At, or before it (WaitingSince)
	}

	// Frozen: an override keeps the request from being granted. It is out of
	// the queue until Thawed.
	Frozen struct {
		Override override.Override
	}

	// Thawed: the request is made again; one of several, in its turn.
	Thawed struct{}

	// Overridden: overrides have changed what the request asks for, before it is
	// made or while it waits. The Subject has its priority from here on.
	Overridden struct {
		Effect override.Effect // nothing is applied: it is as declared again
	}

	// Bypassed: the work runs without the lock. Released follows at its end.
	Bypassed struct {
		Override override.Override
	}

	// ApprovalPending: the waiting timeout of a polite request is over, its
	// holders have not finished, and a decision is needed. An alert.
	ApprovalPending struct {
		Holders []lock.Contender
		Waited  time.Duration // since the first of them was preempted
	}

	// ApprovalDecided: the request may take the lock by force, or fails.
	ApprovalDecided struct {
		Decision Decision
		Err      error // why it may not; nil: it may
	}

	// NotAcquired: the request failed, and is withdrawn.
	NotAcquired struct {
		Waited time.Duration
		Err    error
	}
)

// Notices of a Hold.
type (
	// Acquired: the lock is held.
	Acquired struct {
		Waited time.Duration // from Waiting on
	}

	// CleanupStarted: interrupted work has returned, its hooks begin.
	CleanupStarted struct {
		Cause    error // why the work was interrupted
		Hooks    int
		Deadline time.Time // for all hooks; zero after a loss
		Since    time.Time // when the context of the work ended, on the local clock
	}

	// CleanupDone: all hooks have returned.
	CleanupDone struct {
		Took time.Duration
		Err  error // of the hooks
	}

	// CleanupOverrun: the grace is over and the holder has not gone. It still
	// holds until it goes or the lock is taken. Told once; not for a holder
	// that had no grace.
	CleanupOverrun struct {
		Grace       time.Duration
		WorkRunning bool // it is the work, not a hook, that has not returned
	}

	// Extended: the holder has a new lease.
	Extended struct {
		Lease time.Duration // from now on
	}

	// Downgraded: the holder holds it in shared mode from now on.
	Downgraded struct{}

	// Released: work and hooks have returned and the lock is given away.
	Released struct {
		Held  time.Duration
		Cause error // why the work was interrupted; nil when it ended by itself
		Err   error // why ZooKeeper has not confirmed the release; nil when it has

		Since time.Time     // when the context of the work ended with Cause, on the local clock; else zero
		Took  time.Duration // to give the lock away; Held includes it
	}

	// Lost: the lock is no longer held, though work or hooks may still run.
	Lost struct {
		Held time.Duration
		Err  *LostError
	}
)

// Skipped: a job did not run at an instant of its schedule. Published by the
// layer that schedules, through Guard.Observe.
type Skipped struct {
	Job     string
	Instant time.Time // when it should have run
	Reason  string
}

// Stuck: the context of a run has ended long ago, and the work has not
// returned. Its locks are held, as far as they are, until it does. Published by
// the layer that schedules, through Guard.Observe, once for each run.
type Stuck struct {
	Job     string
	Instant time.Time // of the schedule; zero for a run by hand
	Cause   error     // why the context has ended
	For     time.Duration
	Stack   string // of the goroutines of the run
}

func (Waiting) Kind() string         { return "waiting" }
func (Frozen) Kind() string          { return "frozen" }
func (Thawed) Kind() string          { return "thawed" }
func (Overridden) Kind() string      { return "overridden" }
func (Bypassed) Kind() string        { return "bypassed" }
func (ApprovalPending) Kind() string { return "approval_pending" }
func (ApprovalDecided) Kind() string { return "approval_decided" }
func (NotAcquired) Kind() string     { return "not_acquired" }
func (Acquired) Kind() string        { return "acquired" }
func (CleanupStarted) Kind() string  { return "cleanup_started" }
func (CleanupDone) Kind() string     { return "cleanup_done" }
func (CleanupOverrun) Kind() string  { return "cleanup_overrun" }
func (Extended) Kind() string        { return "extended" }
func (Downgraded) Kind() string      { return "downgraded" }
func (Released) Kind() string        { return "released" }
func (Lost) Kind() string            { return "lost" }
func (Skipped) Kind() string         { return "skipped" }
func (Stuck) Kind() string           { return "stuck" }
