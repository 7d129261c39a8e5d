package lockguard

import (
	"context"
	"log/slog"
	"time"
)

// dress adds what WithContext makes to the values of the contexts of work and
// hooks. h is not shared yet. What is nested has its caller's values already.
func (h *Hold) dress() {
	f := h.lock.guard.dress
	if f == nil || h.bundle == nil && h.lock.first != h {
		return
	}
	values := h.ctx
	for _, l := range h.locks() {
		values = l.dress(values, f) //nolint:fatcontext // one for each lock that the work holds
	}
	h.ctx = valuesOf{h.ctx, values}
}

// dress returns what f makes of ctx for this lock.
func (l *heldLock) dress(ctx context.Context, f func(context.Context, Subject) context.Context) context.Context {
	about := l.stream.now()
	var dressed context.Context
	err := protect("context", func() error {
		dressed = f(ctx, about) //nolint:fatcontext // this is called once
		return nil
	})
	if err != nil {
		l.guard.logger.LogAttrs(ctx, slog.LevelError, "what adds to the context of work panicked; it added nothing",
			slog.String("scope", about.Scope), slog.Any("error", err))
	}
	if dressed == nil {
		return ctx
	}
	l.stream.below(dressed)
	return dressed
}

// valuesOf is a context with the values of another one.
type valuesOf struct {
	context.Context
	values context.Context
}

// Value looks at the other context alone.
func (c valuesOf) Value(key any) any { return c.values.Value(key) }

// workContext is the context of work. It ends when the Hold says so, which
// knows better than the caller's context why; the deadline is the caller's.
type workContext struct {
	context.Context
	caller context.Context
}

// Deadline returns the deadline of the caller's context.
func (c workContext) Deadline() (time.Time, bool) { return c.caller.Deadline() }
