package temporal

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A hold is what a workflow needs of the lock that it is started under.
// *lockguard.Hold is one.
type hold interface {
	Context() context.Context
	Info() lockguard.Info
	Tokens() map[string]lockguard.Token
	Lost() <-chan struct{}
	AtRisk() <-chan struct{}
	Trace() string
}

var _ hold = (*lockguard.Hold)(nil)

// A right to run is all that may end it.
type right struct {
	ctx    context.Context
	hold   context.Context // ends like ctx or before it; never ends in a hook
	inHook bool            // ctx ends with the grace
	lost   <-chan struct{}
	atRisk <-chan struct{}
	loss   error
}

func rightOf(ctx context.Context, run jobs.Run, h hold) right {
	r := right{ctx: ctx, hold: context.Background(), inHook: run.Cause != nil, lost: run.Lost, loss: new(lockguard.LostError)}
	if h == nil {
		return r
	}
	info := h.Info()
	r.lost, r.atRisk, r.loss = h.Lost(), h.AtRisk(), &lockguard.LostError{Scope: info.Requirement.Scope, Token: info.Token}
	if h.Context().Err() == nil {
		r.hold = h.Context()
	} else {
		r.inHook = true
	}
	return r
}

// over returns why work must not go on; nil if it may.
func (r right) over() error {
	switch {
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case closed(r.lost):
		return r.lossCause()
	case r.hold.Err() != nil:
		return context.Cause(r.hold)
	case closed(r.atRisk):
		return jobs.ErrAtRisk
	}
	return nil
}

// lossCause is what the contexts say about a loss, if they do.
func (r right) lossCause() error {
	for _, ctx := range []context.Context{r.ctx, r.hold} {
		if cause := context.Cause(ctx); priority.CauseOf(cause).Kind == priority.KindLost {
			return cause
		}
	}
	return r.loss
}

// context returns one that ends with the right.
func (r right) context() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-r.hold.Done():
		case <-r.lost:
		case <-r.atRisk:
		}
		cancel(r.over())
	}()
	return ctx, func() { cancel(nil) }
}

// graceEnd is when a workflow has to be closed that is cancelled with cause.
func (r right) graceEnd(cause error, timeout time.Duration) time.Time {
	now := time.Now()
	c := priority.CauseOf(cause)
	if r.inHook || c.Kind == priority.KindLost {
		return now
	}
	own := now.Add(timeout)
	if timeout == 0 {
		own = now.Add(DefaultCancelTimeout)
	}
	granted := own
	if c.Kind.IsPreemption() {
		granted = c.Deadline
	}
	if timeout > 0 && own.Before(granted) {
		return own
	}
	return granted
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
