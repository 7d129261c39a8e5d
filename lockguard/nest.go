package lockguard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A place is where in the code a context is: in the work of a Hold, or in one
// of its hooks.
type place struct {
	hold   *Hold
	inHook bool
}

type placeKey struct{}

// carried returns where ctx is inside a Hold of this Guard on this scope, maybe
// among others.
func (g *Guard) carried(ctx context.Context, scope string) (place, bool) {
	p, _ := ctx.Value(placeKey{}).(place)
	for p.hold != nil {
		if h, ok := p.hold.on(g, scope); ok {
			return place{hold: h, inHook: p.inHook}, true
		}
		p = p.hold.around
	}
	return place{}, false
}

// heldBy returns the IDs of the grants that the work with this context holds.
func heldBy(ctx context.Context) []string {
	var ids []string
	p, _ := ctx.Value(placeKey{}).(place)
	for ; p.hold != nil; p = p.hold.around {
		for _, t := range p.hold.tenures() {
			if id := t.grantID(); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// grantID is under what the lock stands in ZooKeeper, while it is held.
func (t *tenure) grantID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != holding || t.lost != nil {
		return ""
	}
	return t.grant.ID()
}

// nest returns a Hold inside the one at p. When over, that one has been given
// away and the caller is a stranger.
func (p place) nest(ctx context.Context, requirement Requirement, hooks []Hook) (hold *Hold, over bool, err error) {
	t := p.hold.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != holding {
		return nil, true, nil
	}
	held := t.requirement.Mode
	if t.sharing > 0 {
		held = priority.Shared
	}
	if !mayNest(held, requirement.Mode) {
		return nil, false, &UpgradeError{Scope: t.requirement.Scope}
	}
	if len(hooks) > 0 && requirement.CleanupTimeout > t.requirement.CleanupTimeout {
		return nil, false, refuseLonger(requirement, t.requirement.CleanupTimeout)
	}
	if err := p.interruptedLocked(); err != nil {
		return nil, false, err
	}
	if ctx.Err() != nil {
		return nil, false, notAcquired(ctx, t.requirement.Scope, ctx.Err())
	}
	hold = t.addHoldLocked(ctx, requirement, hooks)
	hold.inCleanup, hold.cleansUp = p.inHook || p.hold.inCleanup, p.hold.cleansUp
	if p.hold.asked && hold.cleansUp && !hold.inCleanup {
		hold.askLocked(t.asked, p.hold.deadline, p.hold.grace)
	}
	return hold, false, nil
}

// refuseLonger refuses a nested requirement that needs more than the outer one
// has.
func refuseLonger(r Requirement, cleanup time.Duration) error {
	return &RequestError{
		Field: "cleanup_timeout",
		Reason: fmt.Sprintf("%s is more than the %s with which the lock %q was taken around this; lengthen it there",
			r.CleanupTimeout, cleanup, r.Scope),
	}
}

// interruptedLocked returns why nothing new may be started at p. In a hook,
// only a loss counts: the grace is there to be used.
func (p place) interruptedLocked() error {
	t := p.hold.tenure
	switch {
	case t.lost != nil:
		return t.lost
	case p.inHook:
		return nil
	case p.hold.cause != nil:
		return p.hold.cause
	case p.hold.inCleanup, p.hold.cleansUp:
		return nil
	}
	return t.asked
}
