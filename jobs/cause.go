package jobs

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// CauseWord says in a word why work was interrupted, for environments and
// headers: "preempted", "overridden" (for an operator's override), "lease" (its lease
// ran out), "lost", "timeout" (of the
// job), "shutdown" (of the daemon), "at-risk" (the lock may soon be lost),
// "signal", "cancelled" for anything else, and "" for nil.
func CauseWord(cause error) string {
	switch kind := priority.CauseOf(cause).Kind; {
	case cause == nil:
		return ""
	case kind == priority.KindLeaseExpired:
		return "lease"
	case kind.EndsHold():
		return string(kind)
	case errors.As(cause, new(*TimeoutError)):
		return "timeout"
	case errors.Is(cause, lockguard.ErrShutdown):
		return "shutdown"
	case errors.Is(cause, lockguard.ErrAtRisk):
		return "at-risk"
	case errors.As(cause, new(*SignalError)):
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
