package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A LockGrant is a lock of a group that a participant holds.
type LockGrant struct {
	Lock string

	// Token is the fencing token: it grows with every grant of the lock.
	Token lock.Token
}

// A Handler does what a participant holds its locks for. A lock is
// LOCKED, then RELEASED (it may come back), and at last DROPPED.
//
// Each lock has a goroutine of its own while one of its callbacks runs: those
// of one lock come one after the other, and different locks do not wait for
// each other. A callback that panics counts as returned (Panicked), and so
// does one that ends its goroutine (runtime.Goexit).
type Handler interface {
	// OnLocked is called when the lock is held. ctx is the lock: it ends when the
	// lock is to be released, with the cause *ReleaseAskedError, or is lost, with
	// the cause *LostError and before the server can give it to another
	// participant. OnLocked may work under ctx as long as that lives, or return at
	// once; the lock is held either way.
	OnLocked(ctx context.Context, grant LockGrant)

	// OnReleased is called after ctx of OnLocked has ended and OnLocked has
	// returned, to put things right. The lock is still held, unless it was
	// lost: ReleaseCause tells. The deadline of ctx is that of the group's
	// cleanup timeout; the lock does not move before OnReleased returns,
	// however long it takes (CleanupOverrun). When the lock is lost
	// meanwhile, ctx ends with the cause *LostError.
	OnReleased(ctx context.Context, lock string)

	// OnDropped is called, after OnReleased, when the lock will not come back:
	// the group does not have it any more, or the participant leaves. It is
	// called for each lock that was held since the participant joined. ctx has
	// the same deadline as in OnReleased.
	OnDropped(ctx context.Context, lock string)
}

type releaseCauseKey struct{}

// ReleaseCause returns, for the context of OnReleased, why the lock ended:
// *ReleaseAskedError while it is still held, *LostError when it was lost. nil
// for other contexts.
func ReleaseCause(ctx context.Context) error {
	cause, _ := ctx.Value(releaseCauseKey{}).(error)
	return cause
}

type lockGoneKey struct{}

// LockGone returns, for the contexts of OnLocked and OnReleased, a channel that
// is closed when the lock is no longer held, before the server can give it to
// another participant. OnLocked that winds up after its context has ended
// watches it: that context cannot say it any more. nil for other contexts.
func LockGone(ctx context.Context) <-chan struct{} {
	gone, _ := ctx.Value(lockGoneKey{}).(<-chan struct{})
	return gone
}

// ReleaseReason says why a participant has to release a lock.
type ReleaseReason string

// The reasons to release a lock.
const (
	ReleaseMoved ReleaseReason = "moved" // another participant gets it, or the group no longer holds it
	ReleaseLeft  ReleaseReason = "left"  // the participant leaves
)

// ReleaseAskedError is the cause of the context of a lock that its participant
// still holds but has to release.
type ReleaseAskedError struct {
	Group  string
	Lock   string
	Token  lock.Token
	Reason ReleaseReason
}

func (e *ReleaseAskedError) Error() string {
	if e.Reason == ReleaseLeft {
		return fmt.Sprintf("lock %q of group %q is to be released: this participant leaves", e.Lock, e.Group)
	}
	return fmt.Sprintf("lock %q of group %q is to be released: it moves to another participant", e.Lock, e.Group)
}

// NameTakenError is returned by Group.Join when another participant of the
// same name is there and does not go.
type NameTakenError struct {
	Group string
	Name  string
	Host  string
	PID   int
	Since time.Time // server's clock
	Err   error     // why the wait ended
}

func (e *NameTakenError) Error() string {
	why := " and did not go in time"
	if !errors.Is(e.Err, context.DeadlineExceeded) {
		why = fmt.Sprintf(": %v", e.Err)
	}
	return fmt.Sprintf("group %q not joined as %q: that participant is there already (host %s, pid %d, since %s)%s; "+
		"end it, or take another name", e.Group, e.Name, e.Host, e.PID, e.Since.UTC().Format(time.RFC3339), why)
}

// Unwrap returns why the wait ended.
func (e *NameTakenError) Unwrap() error { return e.Err }

// NotParticipantError is returned by Group.Join for a name that is not one of
// Spec.Participants.
type NotParticipantError struct {
	Group        string
	Name         string
	Participants []string
}

func (e *NotParticipantError) Error() string {
	return fmt.Sprintf(
		"group %q not joined: %q is not one of its participants (%s); take one of these names, or add it to the group",
		e.Group, e.Name, strings.Join(e.Participants, ", "))
}

// NotFoundError is returned for a group that was never applied.
type NotFoundError struct{ Group string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no group %q; apply it or join it to create it", e.Group)
}

// errGroupTooLarge is what keeps a controller from writing what ZooKeeper
// would not take.
var errGroupTooLarge = errors.New("the assignment does not fit into one node of ZooKeeper; split the group, " +
	"or shorten the names of locks and participants")

// Notice is one thing that happens in a group, passed to one of its
// participants through Options.Notify. The set of notices is closed.
type Notice interface{ groupNotice() }

type (
	// Controller: this participant decides now who holds what, or does no
	// more. Exactly one does while any is there.
	Controller struct{ Gained bool }

	// RoundDone is for the controller: what was planned is in place.
	RoundDone struct {
		Generation int64
		Moves      int           // locks that were planned to change hands
		Took       time.Duration // since the plan, or since this controller took over
		Writes     int           // to ZooKeeper, those of the participants included
	}

	// StrategyFailed is for the controller: the strategy is unknown here, returned
	// an error, panicked, answered nonsense or nothing within 30s. What was
	// planned before stays; the strategy is asked again after the next change.
	StrategyFailed struct {
		Strategy string
		Err      error
	}

	// CleanupOverrun: OnLocked and OnReleased have not returned within the
	// cleanup timeout. The lock stays here until they do.
	CleanupOverrun struct {
		Lock  string
		After time.Duration
	}

	// Panicked: a callback has panicked. It counts as returned.
	Panicked struct {
		Lock     string
		Callback string // OnLocked, OnReleased or OnDropped
		Value    any
		Stack    string
	}

	// AtRisk: ZooKeeper has not answered for a quarter of the session timeout, or
	// the deadline is less than a sixteenth of it away. The
	// locks will be lost at the deadline unless an answer comes before.
	AtRisk struct{ Deadline time.Time }

	// Lost: all locks of this participant were lost. It joins again by
	// itself.
	Lost struct{ Err *lock.LostError }

	// Joined: the participant is there. Sent again after each Lost.
	Joined struct{ ID string }

	// Fault: something keeps this participant from taking part, such as
	// refused access or data that it cannot read. It goes on trying.
	Fault struct{ Err error }
)

func (Controller) groupNotice()     {}
func (RoundDone) groupNotice()      {}
func (StrategyFailed) groupNotice() {}
func (CleanupOverrun) groupNotice() {}
func (Panicked) groupNotice()       {}
func (AtRisk) groupNotice()         {}
func (Lost) groupNotice()           {}
func (Joined) groupNotice()         {}
func (Fault) groupNotice()          {}
