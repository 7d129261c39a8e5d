package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A limit bounds the acquisition of several locks.
type limit struct {
	start   time.Time
	timeout *time.Duration // the shortest of all; nil when there is none
}

func (g *Guard) newLimit(ctx context.Context, requirements []Requirement) limit {
	l := limit{start: time.Now()}
	for _, r := range requirements {
		if r.AcquireTimeout == nil {
			continue
		}
		effect, _ := g.claim(r.withDefaults(g.owner)).weigh(ctx)
		if t := effect.Terms.AcquireTimeout; t != nil && (l.timeout == nil || *t < *l.timeout) {
			l.timeout = new(*t)
		}
	}
	return l
}

func (l limit) isTry() bool { return l.timeout != nil && *l.timeout == 0 }

// left is the acquire timeout of a request that is made now.
func (l limit) left() *time.Duration {
	if l.timeout == nil || l.isTry() {
		return l.timeout
	}
	return new(max(*l.timeout-time.Since(l.start), time.Nanosecond)) // 0 would be a try
}

// explain makes the error of one lock one of all: its time counts from the call.
func (l limit) explain(err error) error {
	if e, ok := errors.AsType[*FrozenError](err); ok && e.Err != nil {
		inAll := *e
		inAll.Err = l.explain(e.Err)
		return &inAll
	}
	e, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok || e.Waited == 0 {
		return err
	}
	inAll := *e // the observers have the other one
	inAll.Waited = time.Since(l.start)
	return &inAll
}

// during does what is left to do at one lock.
func (l limit) during(ctx context.Context, held *heldLock, do func(context.Context) error) error {
	if left := l.left(); left != nil && !l.isTry() {
		over := &lock.NotAcquiredError{Scope: held.requirement.Scope, Waited: *l.timeout}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *left, over)
		defer cancel()
	}
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		err = notAcquired(ctx, held.requirement.Scope, err)
	}
	return err
}
