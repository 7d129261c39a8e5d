package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A hold is what work needs of the lock that it runs under.
// *lockguard.Hold is one.
type hold interface {
	Context() context.Context
	Info() lockguard.Info
	Tokens() map[string]lockguard.Token
	Lost() <-chan struct{}
	AtRisk() <-chan struct{} // closed while there is time to stop before Lost
}

var _ hold = (*lockguard.Hold)(nil)

// environment is what run, and h if it is not nil, add to the environment of a
// command.
func environment(ctx context.Context, run Run, h hold) []string {
	var env []string
	add := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	add("LOCKKEEPER_JOB", run.Job)
	add("LOCKKEEPER_RUN", run.Attempt)
	if !run.Scheduled.IsZero() {
		add("LOCKKEEPER_SCHEDULED", run.Scheduled.UTC().Format(time.RFC3339Nano))
	}
	add("LOCKKEEPER_CAUSE", CauseWord(run.Cause))
	if h == nil {
		add("TRACEPARENT", lockguard.Traceparent(ctx))
		return env
	}
	info := h.Info()
	env = append(env,
		"LOCKKEEPER_SCOPE="+info.Requirement.Scope,
		"LOCKKEEPER_TOKEN="+info.Token.String(),
		fmt.Sprintf("LOCKKEEPER_PRIORITY=%d", info.Requirement.Priority),
		fmt.Sprintf("LOCKKEEPER_MODE=%s", info.Requirement.Mode),
		"LOCKKEEPER_LEASE_DEADLINE="+info.LeaseDeadline.Format(time.RFC3339),
		"LOCKKEEPER_TOKENS="+tokens(h),
	)
	add("TRACEPARENT", traceOf(ctx, h))
	return env
}

// traceOf is the span that the work belongs to; where nobody makes spans, what
// travels with the request.
func traceOf(ctx context.Context, h hold) string {
	if own := lockguard.Traceparent(ctx); own != "" {
		return own
	}
	if traced, ok := h.(interface{ Trace() string }); ok {
		return traced.Trace()
	}
	return ""
}

// tokens writes the tokens as strings: JSON's numbers are too small for them in
// many languages.
func tokens(h hold) string {
	texts := make(map[string]string)
	for scope, token := range h.Tokens() {
		texts[scope] = token.String()
	}
	object, err := json.Marshal(texts)
	if err != nil { // strings can be written
		panic(err)
	}
	return string(object)
}

// watched is all that may end the right of work to go on.
type watched struct {
	ctx    context.Context
	hold   context.Context // ends like ctx or before it; never ends in a hook
	inHook bool            // ctx ends with the grace
	lost   <-chan struct{}
	atRisk <-chan struct{}
	says   []context.Context // which may say what lost means
	loss   error             // what it means if they do not
}

func watch(ctx context.Context, run Run, h hold) watched {
	w := watched{ctx: ctx, hold: context.Background(), says: []context.Context{ctx}}
	if h == nil {
		if run.Lost != nil {
			w.lost, w.loss = run.Lost, new(lockguard.LostError)
		}
		return w
	}
	info := h.Info()
	w.says = append(w.says, h.Context())
	w.atRisk, w.lost, w.loss = h.AtRisk(), h.Lost(), &lockguard.LostError{Scope: info.Requirement.Scope, Token: info.Token}
	// A hook runs under a live context of its own, when that of its hold has
	// ended.
	if h.Context().Err() == nil {
		w.hold = h.Context()
	} else {
		w.inHook = true
	}
	return w
}

// over returns why work must not go on, or even start; nil if it may.
func (w watched) over() error {
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case closed(w.lost):
		return w.lossCause()
	case w.hold.Err() != nil:
		return context.Cause(w.hold)
	case closed(w.atRisk):
		return ErrAtRisk
	}
	return nil
}

// lossCause is what a context says about a loss. One that had ended before
// cannot say it.
func (w watched) lossCause() error {
	for _, ctx := range w.says {
		if cause := context.Cause(ctx); priority.CauseOf(cause).Kind == priority.KindLost {
			return cause
		}
	}
	return w.loss
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// graceEnd is when a command has to be gone that is asked to go with cause.
func (w watched) graceEnd(cause error, cleanup time.Duration) time.Time {
	switch c := priority.CauseOf(cause); {
	case w.inHook, c.Kind == priority.KindLost:
		return time.Now()
	case c.Kind.IsPreemption():
		return c.Deadline
	}
	return time.Now().Add(cleanup)
}
