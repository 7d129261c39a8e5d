package lockguard

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// cleanUp runs the hooks of interrupted work that has returned.
func (h *Hold) cleanUp() error {
	l := h.lock
	l.mu.Lock()
	hooks := h.hooks
	h.hooks = nil
	if len(hooks) == 0 {
		l.mu.Unlock()
		return nil
	}
	h.startGraceLocked()
	cause, deadline, since := h.cause, h.deadline, h.since
	l.mu.Unlock()
	h.announce(CleanupStarted{cause, len(hooks), deadline, since})

	started := time.Now()
	var failures []error
	defer func() {
		took, err := time.Since(started), join(failures...)
		h.announce(CleanupDone{took, err})
	}()
	h.runHooks(hooks, &failures)
	return join(failures...)
}

// announce tells a notice of each lock that h is on.
func (h *Hold) announce(n recipes.Notice) {
	for _, l := range h.locks() {
		l.mu.Lock()
		l.stream.note(n)
		l.mu.Unlock()
		l.stream.deliver()
	}
}

// startGraceLocked gives hooks a deadline. One that was asked to go has its
// grace already; one that was shut down gets all the time it asked for.
func (h *Hold) startGraceLocked() {
	switch {
	case h.lost != nil:
	case h.inCleanup:
		if deadline, ok := h.caller.Deadline(); ok {
			h.armLocked(deadline, h.cleanupTimeout)
		}
	case !h.asked:
		h.armLocked(time.Now().Add(h.cleanupTimeout), h.cleanupTimeout)
	}
}

// runHooks runs the last hook first. The rest is deferred, so that a hook that
// ends its goroutine does not keep the others from running.
func (h *Hold) runHooks(hooks []Hook, failures *[]error) {
	if len(hooks) == 0 {
		return
	}
	last := len(hooks) - 1
	defer h.runHooks(hooks[:last], failures)
	ctx, done := h.beginHook()
	defer done()
	if err := protect("cleanup hook", func() error { return hooks[last](ctx) }); err != nil {
		*failures = append(*failures, fmt.Errorf("cleanup: %w", err))
	}
}

// beginHook returns the context of one hook.
func (h *Hold) beginHook() (ctx context.Context, done func()) {
	l := h.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	values := context.WithValue(context.WithoutCancel(h.values), placeKey{}, place{hold: h, inHook: true})
	ctx, cancel := context.WithCancelCause(values)
	if h.lost != nil {
		cancel(h.lost)
	}
	stop := context.CancelFunc(func() {})
	if !h.deadline.IsZero() {
		ctx, stop = context.WithDeadlineCause(ctx, h.deadline, h.graceOverLocked())
	}
	h.hookCancel, h.hookDeadline = cancel, h.deadline

	return ctx, func() {
		l.mu.Lock()
		h.hookCancel = nil
		l.mu.Unlock()
		stop()
		cancel(nil)
	}
}

func (h *Hold) graceOverLocked() error {
	return fmt.Errorf("grace of %s for the cleanup of %s is over: %w", h.grace, h.describe(), context.DeadlineExceeded)
}

// armLocked sets the end of the grace, or moves it forward. It never moves
// back: what was promised first is what a hook has planned with.
func (h *Hold) armLocked(deadline time.Time, grace time.Duration) {
	if h.phase == ended || (!h.deadline.IsZero() && !deadline.Before(h.deadline)) {
		return
	}
	h.deadline, h.grace = deadline, grace
	left := time.Until(deadline)
	if h.graceTimer == nil {
		h.graceTimer = time.AfterFunc(left, h.overrun)
		return
	}
	h.graceTimer.Reset(left)
}

func (h *Hold) disarmLocked() {
	if h.graceTimer != nil {
		h.graceTimer.Stop()
	}
	h.deadline = time.Time{}
}

// overrun is called at the end of the grace of a Hold that is still there.
func (h *Hold) overrun() {
	l := h.lock
	l.mu.Lock()
	if h.deadline.IsZero() { // ended or lost meanwhile
		l.mu.Unlock()
		return
	}
	if h.hookCancel != nil && h.deadline.Before(h.hookDeadline) {
		h.hookCancel(h.graceOverLocked()) // began with a later deadline
	}
	if h.cleansUp {
		h.interruptLocked(h.graceOverLocked())
	}
	grace, running := h.grace, h.phase == working
	l.mu.Unlock()
	if grace <= 0 {
		return
	}
	for _, l := range h.locks() {
		l.mu.Lock()
		if !l.overran {
			l.overran = true
			l.stream.note(CleanupOverrun{grace, running})
		}
		l.mu.Unlock()
		l.stream.deliver()
	}
}
