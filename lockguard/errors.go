package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// ErrReleased is returned when a Hold is used or released after its Release.
// It is also the cause of a Hold's context after a release in good order.
var ErrReleased = lock.ErrReleased

// ErrStopped is wrapped by the error of work that was stopped before its end
// without a preemption: because its time was over, say, or
// because the lock may soon be lost. What it leaves behind is put right by the
// hooks, as after an interruption.
var ErrStopped = errors.New("stopped before its end")

// ErrShutdown is the cause with which a daemon that stops cancels the context
// of its work. The work gets a *ShutdownError that wraps it.
var ErrShutdown = errors.New("lockkeeper: shutting down")

// What a caller meets here of the layer below.
type (
	// LostError says that the lock is no longer held. It is the cause of the
	// context of a Hold that was lost, and of the context of its hooks.
	LostError = lock.LostError

	// RequestError says what is wrong with one field of a Requirement.
	RequestError = lock.RequestError

	// Token is a fencing token.
	Token = lock.Token
)

// PreemptedError is the cause of the context of a Hold whose holder was
// preempted by a more important request. The lock is still held until the hooks
// have returned, or until it is lost.
type PreemptedError struct {
	Scope    string
	By       string // owner of the preemptor
	Priority priority.Level
	Grace    time.Duration // for work and hooks together
	Deadline time.Time     // end of the grace on the local clock
	Forceful bool          // the lock is taken when the grace is over
}

func (e *PreemptedError) Error() string {
	force := ""
	if e.Forceful {
		force = ", forceful"
	}
	return fmt.Sprintf("lock %q preempted by %q (priority %d%s), %s",
		e.Scope, e.By, e.Priority, force, describeGrace(e.Grace))
}

// Info tells what kind of cause it is.
func (e *PreemptedError) Info() priority.CauseInfo {
	return priority.CauseInfo{
		Kind: priority.KindPreempted, Scope: e.Scope, By: e.By, Priority: e.Priority, Deadline: e.Deadline,
		Forceful: e.Forceful,
	}
}

// LeaseExpiredError is the cause of the context of a Hold whose lease has run
// out and whose lock another request wants. The end of the lease alone does
// nothing. The lock is still held until the hooks have returned, or until it
// is lost.
type LeaseExpiredError struct {
	Scope    string
	By       string // owner of the one who asks
	Priority priority.Level
	Lease    time.Duration
	Grace    time.Duration // for work and hooks together
	Deadline time.Time     // end of the grace on the local clock
}

func (e *LeaseExpiredError) Error() string {
	return fmt.Sprintf("lease of %s on lock %q ran out and %q (priority %d) asks for it, %s",
		e.Lease, e.Scope, e.By, e.Priority, describeGrace(e.Grace))
}

// Info tells what kind of cause it is.
func (e *LeaseExpiredError) Info() priority.CauseInfo {
	return priority.CauseInfo{
		Kind: priority.KindLeaseExpired, Scope: e.Scope, By: e.By, Priority: e.Priority, Deadline: e.Deadline,
		Forceful: true,
	}
}

// OverriddenError is the cause of the context of a Hold whose holder was
// preempted for an operator's override. The lock is still held until the hooks have
// returned, or until it is lost.
type OverriddenError struct {
	Scope    string
	Override lock.Mark     // who, why
	Grace    time.Duration // for work and hooks together
	Deadline time.Time     // end of the grace on the local clock
	Forceful bool          // the lock is taken when the grace is over
}

func (e *OverriddenError) Error() string {
	return fmt.Sprintf("lock %q overridden by %s (%s: %s), %s",
		e.Scope, e.Override.By, e.Override.ID, e.Override.Reason, describeGrace(e.Grace))
}

// Info tells what kind of cause it is.
func (e *OverriddenError) Info() priority.CauseInfo {
	return priority.CauseInfo{
		Kind: priority.KindOverridden, Scope: e.Scope, By: e.Override.By, Deadline: e.Deadline, Forceful: e.Forceful,
	}
}

// FrozenError is returned when an operator's override kept a request from being
// granted until its acquire timeout or its context ended; a try fails with it at
// once.
type FrozenError struct {
	Scope    string
	Override override.Override // who, why, until when
	Err      error             // *lock.NotAcquiredError, or why the context ended; nil while it is waited for
}

func (e *FrozenError) Error() string {
	o := e.Override
	what := fmt.Sprintf("lock %q", e.Scope)
	end := ""
	switch {
	case errors.As(e.Err, new(*lock.NotAcquiredError)):
		what = e.Err.Error()
	case e.Err != nil:
		what += " not acquired"
		end = ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s: frozen by %s until %s (%s: %s)%s",
		what, o.By, o.Until.UTC().Format(time.RFC3339), o.ID, o.Reason, end)
}

// Info tells what kind of cause it is.
func (e *FrozenError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindFrozen, Scope: e.Scope}
}

// Unwrap returns what the request fails with, had it only waited.
func (e *FrozenError) Unwrap() error { return e.Err }

func describeGrace(grace time.Duration) string {
	if grace <= 0 {
		return "no time to clean up"
	}
	return fmt.Sprintf("%s to clean up", grace)
}

// ShutdownError is the cause of the context of a Hold whose caller's context
// ended, for whatever reason, while the work was running. The lock is still
// held until the hooks have returned.
type ShutdownError struct {
	Scope string
	Err   error // the cause with which the caller's context ended
}

func (e *ShutdownError) Error() string {
	return fmt.Sprintf("work under lock %q was shut down: %v", e.Scope, e.Err)
}

// Info tells what kind of cause it is.
func (e *ShutdownError) Info() priority.CauseInfo {
	return priority.CauseInfo{Kind: priority.KindShutdown, Scope: e.Scope}
}

// Unwrap returns the cause with which the caller's context ended.
func (e *ShutdownError) Unwrap() error { return e.Err }

// UpgradeError is returned when a context that carries a shared Hold asks for
// the same scope exclusively: two such holders would wait for each other.
type UpgradeError struct{ Scope string }

func (e *UpgradeError) Error() string {
	return fmt.Sprintf("lock %q is held in shared mode by this context and cannot become exclusive; "+
		"ask for exclusive at the outer level, or release it first", e.Scope)
}

// PanicError is what becomes of a panic in work, in a cleanup hook, or in an
// Approver or Auditor.
type PanicError struct {
	In    string // "work", "cleanup hook", "approver", "auditor" or "context"
	Value any    // what was given to panic
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.In, e.Value) }

// Unwrap returns the panic's value when that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// shutdownCause is why a Hold ends whose caller's context has ended.
func shutdownCause(caller context.Context, scope string) error {
	err := context.Cause(caller)
	if s, ok := errors.AsType[*ShutdownError](err); ok && s.Scope == scope {
		return s // of the Hold around this one
	}
	return &ShutdownError{Scope: scope, Err: err}
}

// notAcquired says which lock was not acquired, and why, unless err says so.
func notAcquired(ctx context.Context, scope string, err error) error {
	if priority.RefusalOf(err).Kind != "" || priority.CauseOf(err).Kind == priority.KindLost {
		return err
	}
	for _, why := range []error{context.Cause(ctx), ctx.Err()} {
		if why != nil && !errors.Is(err, why) {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	if _, said := errors.AsType[*lock.EmergencyError](err); said {
		return err
	}
	return fmt.Errorf("lock %q not acquired: %w", scope, err)
}

// several is what went wrong, most important first, on one line.
type several struct{ errs []error }

// join is errors.Join on one line; a single error stays what it is.
func join(errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &several{all}
}

func (s *several) Error() string {
	return words.Join(s.errs, "; ", error.Error)
}

func (s *several) Unwrap() []error { return s.errs }
