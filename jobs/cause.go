package jobs

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// CauseWord says in a word why work was interrupted, for environments and
// headers: "preempted", "overridden" (for an operator's override), "lease" (its lease
// ran out), "lost", "timeout" (of the
// job), "shutdown" (of the daemon), "at-risk" (the lock may soon be lost),
// "signal", "cancelled" for anything else, and "" for nil.
func CauseWord(cause error) string {
	is := func(target any) bool { return errors.As(cause, target) }
	switch {
	case cause == nil:
		return ""
	case is(new(*lockguard.LostError)):
		return "lost"
	case is(new(*lockguard.OverriddenError)):
		return "overridden"
	case is(new(*lockguard.PreemptedError)):
		return "preempted"
	case is(new(*lockguard.LeaseExpiredError)):
		return "lease"
	case is(new(*TimeoutError)):
		return "timeout"
	case errors.Is(cause, lockguard.ErrShutdown):
		return "shutdown"
	case errors.Is(cause, ErrAtRisk):
		return "at-risk"
	case is(new(*SignalError)):
		return "signal"
	}
	return "cancelled"
}

// interruption remembers for the hooks of a run how its work ended.
type interruption struct {
	cause error // of the context of the work; nil if it was alive
	err   error // of the work
}

// in returns why the work was interrupted, in a hook with ctx.
func (i *interruption) in(ctx context.Context) error {
	if i.cause != nil {
		return i.cause
	}
	if h, ok := lockguard.FromContext(ctx); ok {
		if cause := context.Cause(h.Context()); cause != nil && !errors.Is(cause, lockguard.ErrReleased) {
			return cause // came as the work returned
		}
	}
	return i.err // it has stopped itself
}
