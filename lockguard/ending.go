package lockguard

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An ending is what came of a Hold.
type ending struct {
	cause      error // why the work was interrupted; nil when it was not
	hooks      error // what went wrong in the hooks
	departures []departure
}

// A departure is what came of one lock at the end of a Hold.
type departure struct {
	lost    *LostError // before work and hooks had returned
	release error
}

// outcome is what Do returns for work that returned err.
func (e ending) outcome(err error) error {
	cause := e.cause
	var losses []error
	for _, d := range e.departures {
		if lost := d.loss(); lost != nil && !errors.Is(cause, lost) && !errors.Is(err, lost) {
			losses = append(losses, lost)
		}
	}
	switch {
	case cause == nil:
	case errors.Is(err, cause):
		cause = nil // err says so itself
	case err != nil && errors.Is(cause, err):
		err = nil
	}
	return join(cause, join(losses...), err, e.hooks)
}

// loss is set if the lock may have been lost under the work or the hooks.
func (d departure) loss() error {
	if d.lost != nil {
		return d.lost
	}
	if lost := (*LostError)(nil); errors.As(d.release, &lost) && lost.Reason != lock.LossSession {
		return lost
	}
	return nil
}

// run runs work under the Hold, which it ends.
func (h *Hold) run(ctx context.Context, work func(ctx context.Context) error) (err error) {
	var failure error
	defer func() { // deferred for work that ends its goroutine
		end, ok := h.conclude(ctx, failure)
		if !ok { // work has released the Hold itself
			end = h.interrupted()
		}
		err = end.outcome(failure)
	}()
	failure = protect("work", func() error { return work(h.Context()) })
	return failure
}

// conclude ends the Hold, whose work returned err. ok is false if that was done
// before.
func (h *Hold) conclude(ctx context.Context, err error) (end ending, ok bool) {
	cause, ok := h.finish(err)
	if !ok {
		return ending{}, false
	}
	if h.bundle != nil {
		h.bundle.settle(cause)
	}
	// Deferred for hooks that end their goroutine.
	defer func() { end.departures = h.leave(ctx) }()
	end.cause = cause
	if cause != nil {
		end.hooks = h.cleanUp() // planted-bug release-before-cleanup: go h.cleanUp()
	}
	return end, true
}

// interrupted is what a Hold that was released early has to say for itself.
func (h *Hold) interrupted() ending {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	return ending{cause: h.cause}
}

// finish marks the end of the work, and says why it was interrupted. From here
// on it is too late for that.
func (h *Hold) finish(err error) (cause error, ok bool) { //nolint:revive // cause is a result, not a failure
	h.unwatch()
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	if h.phase != working {
		return nil, false
	}
	h.shutDownLocked() // the watch may be late
	if errors.Is(err, ErrStopped) {
		h.interruptLocked(err)
	}
	h.phase = cleaning
	h.cancel(ErrReleased)
	return h.cause, true
}

// leave gives the lock away, unless other Holds are on it.
func (h *Hold) leave(ctx context.Context) []departure {
	leave := h.lock.remove(h)
	if h.bundle != nil {
		return h.bundle.leave(ctx, releaseTimeout)
	}
	return []departure{leave(ctx, releaseTimeout)}
}
