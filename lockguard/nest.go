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
		for _, l := range p.hold.locks() {
			if id := l.grantID(); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// grantID is under what the lock stands in ZooKeeper, while it is held.
func (l *heldLock) grantID() string {
	if l.isOver() {
		return ""
	}
	return l.grant.ID()
}

// nest returns a Hold inside the one at p. When over, that one has been given
// away and the caller is a stranger.
func (p place) nest(ctx context.Context, requirement Requirement, hooks []Hook) (hold *Hold, over bool, err error) {
	l := p.hold.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, true, nil
	}
	held := l.requirement.Mode
	if l.sharing > 0 {
		held = priority.Shared
	}
	if !mayNest(held, requirement.Mode) {
		return nil, false, &UpgradeError{Scope: l.requirement.Scope}
	}
	if len(hooks) > 0 && requirement.CleanupTimeout > l.requirement.CleanupTimeout {
		return nil, false, refuseLonger(requirement, l.requirement.CleanupTimeout)
	}
	if err := p.interruptedLocked(); err != nil {
		return nil, false, err
	}
	if ctx.Err() != nil {
		return nil, false, notAcquired(ctx, l.requirement.Scope, ctx.Err())
	}
	hold = l.addHoldLocked(ctx, requirement, hooks)
	hold.inCleanup, hold.cleansUp = p.inHook || p.hold.inCleanup, p.hold.cleansUp
	if p.hold.asked && hold.cleansUp && !hold.inCleanup {
		hold.askLocked(l.asked, p.hold.grace.end, p.hold.grace.length)
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
	l := p.hold.lock
	switch {
	case l.lost != nil:
		return l.lost
	case p.inHook:
		return nil
	case p.hold.cause != nil:
		return p.hold.cause
	case p.hold.inCleanup, p.hold.cleansUp:
		return nil
	}
	return l.asked
}
