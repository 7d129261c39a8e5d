package lockguard

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
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
	cause, deadline, since := h.cause, h.grace.end, h.since
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
func (h *Hold) announce(n lock.Notice) {
	for _, l := range h.locks() {
		l.mu.Lock()
		l.stream.note(n)
		l.mu.Unlock()
		l.stream.deliver()
	}
}

// startGraceLocked gives hooks a deadline. A preempted one has its
// grace already; one that was shut down gets its whole cleanup timeout.
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
	values := context.WithValue(context.WithoutCancel(h.ctx), placeKey{}, place{hold: h, inHook: true})
	ctx, cancel := context.WithCancelCause(values)
	if h.lost != nil {
		cancel(h.lost)
	}
	stop := context.CancelFunc(func() {})
	if !h.grace.end.IsZero() {
		ctx, stop = context.WithDeadlineCause(ctx, h.grace.end, h.graceOverLocked())
	}
	h.grace.hook, h.grace.hookEnd = cancel, h.grace.end

	return ctx, func() {
		l.mu.Lock()
		h.grace.hook = nil
		l.mu.Unlock()
		stop()
		cancel(nil)
	}
}

func (h *Hold) graceOverLocked() error {
	return fmt.Errorf("grace of %s for the cleanup of %s is over: %w",
		h.grace.length, h.describe(), context.DeadlineExceeded)
}

// A grace is the time that an interrupted Hold has for its work and its hooks.
type grace struct {
	end     time.Time // zero while none runs
	length  time.Duration
	timer   *time.Timer
	hook    context.CancelCauseFunc // of the hook that runs; nil: none does
	hookEnd time.Time               // with which that has begun
}

// start sets the end, or moves it forward. It never moves back: what was promised
// first is what a hook has planned with.
func (g *grace) start(end time.Time, length time.Duration, over func()) {
	if !g.end.IsZero() && !end.Before(g.end) {
		return
	}
	g.end, g.length = end, length
	left := time.Until(end)
	if g.timer == nil {
		g.timer = time.AfterFunc(left, over)
		return
	}
	g.timer.Reset(left)
}

func (g *grace) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
	g.end = time.Time{}
}

func (g *grace) endHook(cause error) {
	if g.hook != nil {
		g.hook(cause)
	}
}

func (h *Hold) armLocked(end time.Time, length time.Duration) {
	if h.phase != ended {
		h.grace.start(end, length, h.overrun)
	}
}

// overrun is called at the end of the grace of a Hold that is still there.
func (h *Hold) overrun() {
	l := h.lock
	l.mu.Lock()
	if h.grace.end.IsZero() { // ended or lost meanwhile
		l.mu.Unlock()
		return
	}
	if h.grace.end.Before(h.grace.hookEnd) {
		h.grace.endHook(h.graceOverLocked()) // began with a later deadline
	}
	if h.cleansUp {
		h.interruptLocked(h.graceOverLocked())
	}
	length, running := h.grace.length, h.phase == working
	l.mu.Unlock()
	if length <= 0 {
		return
	}
	for _, l := range h.locks() {
		l.mu.Lock()
		if !l.overran {
			l.overran = true
			l.stream.note(CleanupOverrun{length, running})
		}
		l.mu.Unlock()
		l.stream.deliver()
	}
}
