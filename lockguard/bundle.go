package lockguard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A bundle is several locks that are held together. There is a Hold on each of
// them, a member, as if each had been acquired alone. One more, the front, is
// nested in the member of the first lock given: it has the work and the hooks.
// What happens to a member happens to the front.
type bundle struct {
	guard      *Guard
	members    []*Hold     // in the order in which they were acquired
	given      []*heldLock // in the order of the requirements
	lostSignal chan struct{}
	cancel     context.CancelCauseFunc // ends the wait for the locks

	limit limit

	// kept are requests that are, or were, frozen: they go on in this bundle, or
	// in the next one.
	kept map[string]*request

	mu    sync.Mutex
	front *Hold
	over  error // why there will be no front
}

// giveBackLimit is how long a call that has failed waits until what it has is
// given back; what is not confirmed by then goes on in the background.
const giveBackLimit = 500 * time.Millisecond

// gather acquires several locks, in one bundle after the other.
func (g *Guard) gather(ctx context.Context, requirements []Requirement, hooks []Hook) (*Hold, error) {
	limit := g.newLimit(ctx, requirements)
	kept := make(map[string]*request)
	for {
		b := &bundle{guard: g, lostSignal: make(chan struct{}), limit: limit, kept: kept}
		hold, err := b.acquire(ctx, requirements, hooks)
		switch {
		case err == nil:
			return hold, nil
		case !b.again(err) || limit.isTry():
			err = limit.explain(err)
		case ctx.Err() != nil:
			err = notAcquired(ctx, requirements[0].Scope, ctx.Err())
		default:
			continue
		}
		for _, r := range kept {
			_ = r.refused(ctx, err) // it is the error of all of them
		}
		return nil, err
	}
}

// acquire acquires all locks, and gives back what it has if one fails.
func (b *bundle) acquire(ctx context.Context, requirements []Requirement, hooks []Hook) (front *Hold, err error) {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.cancel = cancel
	ordered := inOrder(requirements)
	if err := b.thaw(ctx, ordered); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.settle(b.why())
			b.leave(ctx, giveBackLimit)
		}
	}()
	for i, r := range ordered {
		e := errand{among: b, timeout: b.limit.left(), last: i == len(requirements)-1}
		member, gone, err := b.guard.acquire(wait, ctx, r, nil, e)
		switch {
		case gone:
			_, err = b.giveUp(err)
			return nil, err
		case err != nil:
			return nil, err
		}
		if err := b.add(member); err != nil {
			return nil, err
		}
		if len(hooks) > 0 && member.cleanupTimeout < r.CleanupTimeout {
			return nil, refuseLonger(r, member.cleanupTimeout)
		}
	}
	if err := b.begin(wait); err != nil {
		return nil, err
	}
	return b.open(ctx, requirements, hooks)
}

// thaw waits until none of the locks is frozen, while none is held.
func (b *bundle) thaw(ctx context.Context, ordered []Requirement) error {
	if b.guard.overrides == nil {
		return nil
	}
	for waited := true; waited; {
		waited = false
		for _, r := range ordered {
			r = r.withDefaults(b.guard.owner)
			if _, nested := b.guard.carried(ctx, r.Scope); nested {
				continue
			}
			effect, changed := b.guard.claim(r).weigh(ctx)
			if effect.Frozen == nil {
				continue
			}
			waited = true
			kept := b.take(ctx, r, b.limit.left())
			b.kept[r.Scope] = kept
			if _, _, err := kept.endure(ctx, effect, changed); err != nil {
				delete(b.kept, r.Scope)
				return kept.refused(ctx, err)
			}
		}
	}
	for _, r := range b.kept {
		r.mu.Lock()
		r.thawLocked()
		r.mu.Unlock()
		r.stream.deliver()
	}
	return nil
}

// take returns the request for a lock that was frozen before, or a new one.
func (b *bundle) take(caller context.Context, requirement Requirement, timeout *time.Duration) *request {
	if r, ok := b.kept[requirement.Scope]; ok {
		delete(b.kept, requirement.Scope)
		return r
	}
	r := newRequest(caller, b.guard, requirement)
	r.limit.timeout, r.limited = timeout, true
	return r
}

// keeps reports whether a request has failed only because other locks are held,
// and keeps it for the next bundle.
func (b *bundle) keeps(r *request, err error) bool {
	if frozen, ok := errors.AsType[*FrozenError](err); b == nil || !ok || frozen.Err != nil {
		return false
	}
	b.kept[r.claim.about.Scope] = r
	return true
}

// holdsAny reports whether the bundle has a lock of its own.
func (b *bundle) holdsAny() bool {
	return slices.ContainsFunc(b.members, func(m *Hold) bool { return m.lock.first == m })
}

// ids are under what the members stand in ZooKeeper.
func (b *bundle) ids() []string {
	var ids []string
	for _, m := range b.members {
		if id := m.lock.grantID(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// inOrder returns requirements in the order that all bundles have in common.
func inOrder(requirements []Requirement) []Requirement {
	return slices.SortedFunc(slices.Values(requirements), func(a, b Requirement) int {
		return cmp.Compare(a.Scope, b.Scope)
	})
}

// add makes h a member. It returns why h was interrupted already, if it was.
func (b *bundle) add(h *Hold) error {
	b.members = append(b.members, h)
	h.lock.mu.Lock()
	h.memberOf = b
	cause := h.cause
	h.lock.mu.Unlock()
	if cause == nil {
		return nil
	}
	_, err := b.giveUp(cause)
	return err
}

// begin gives the leases that were used up by waiting their whole length again,
// and starts the minimum runtimes: a request of higher priority does not wait for
// the end of one that has not begun.
func (b *bundle) begin(ctx context.Context) error {
	for _, m := range b.members {
		if m.lock.first != m {
			continue // the outer Hold has seen to it
		}
		lease := m.lock.leaseLength()
		err := b.limit.during(ctx, m.lock, func(ctx context.Context) error {
			if time.Since(m.lock.since) >= lease/10 {
				if err := m.lock.extend(ctx, lease); err != nil {
					return err
				}
			}
			return m.lock.protect(ctx)
		})
		if err != nil {
			if priority.CauseOf(err).Kind.EndsHold() {
				_, err = b.giveUp(err)
			}
			return err
		}
	}
	return nil
}

// open makes the front, unless a lock has to be given up.
func (b *bundle) open(ctx context.Context, requirements []Requirement, hooks []Hook) (*Hold, error) {
	cleanup := b.members[0].cleanupTimeout
	for _, r := range requirements {
		for _, m := range b.members {
			if m.lock.requirement.Scope == r.Scope {
				b.given = append(b.given, m.lock)
			}
			cleanup = min(cleanup, m.cleanupTimeout)
		}
	}
	if err := b.frozen(); err != nil {
		_, err = b.giveUp(err)
		return nil, err
	}
	l := b.given[0]
	first := b.members[slices.IndexFunc(b.members, func(m *Hold) bool { return m.lock == l })]

	l.mu.Lock()
	front := l.addHoldLocked(ctx, requirements[0], hooks)
	front.bundle, front.cleanupTimeout, front.inCleanup = b, cleanup, first.inCleanup
	l.mu.Unlock()

	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.over
	if err == nil && ctx.Err() != nil {
		err = notAcquired(ctx, l.requirement.Scope, ctx.Err())
	}
	if err != nil {
		front.unwatch()
		l.remove(front)
		return nil, err
	}
	b.front = front
	return front, nil
}

// frozen returns what keeps one of the locks from being granted: the work has
// not begun.
func (b *bundle) frozen() error {
	for _, m := range b.members {
		l := m.lock
		if l.first != m || l.bypass() != nil {
			continue
		}
		if by := l.claim.frozen(); by != nil {
			return &FrozenError{Scope: l.claim.about.Scope, Override: *by}
		}
	}
	return nil
}

// again reports whether err only means that the bundle was given up. If that
// was because of an outer Hold, the next one will be refused.
func (b *bundle) again(err error) bool {
	over := b.why()
	return over != nil && errors.Is(err, over)
}

func (b *bundle) why() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// giveUp returns the front; or, if there is none yet, why there will be none,
// which is the first cause.
func (b *bundle) giveUp(cause error) (front *Hold, over error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.front == nil && b.over == nil {
		b.over = cause
		b.cancel(cause)
	}
	return b.front, b.over
}

// press is called when a member is preempted.
func (b *bundle) press(cause error, deadline time.Time, grace time.Duration) {
	front, _ := b.giveUp(cause)
	if front == nil {
		return
	}
	front.lock.mu.Lock()
	front.pressLocked(cause, deadline, grace)
	front.lock.mu.Unlock()
	b.interrupt(cause)
}

// lose is called when the lock of a member was lost.
func (b *bundle) lose(lost *LostError) {
	front, _ := b.giveUp(lost)
	if front == nil {
		return
	}
	front.lock.mu.Lock()
	front.loseLocked(lost)
	front.lock.mu.Unlock()
	b.mu.Lock()
	if !isClosed(b.lostSignal) {
		close(b.lostSignal) // the context has ended before it is closed
	}
	b.mu.Unlock()
	b.interrupt(lost)
}

// interrupt lets nothing new be started under any of the locks.
func (b *bundle) interrupt(cause error) {
	for _, m := range b.members {
		m.lock.mu.Lock()
		m.interruptLocked(cause)
		m.lock.mu.Unlock()
	}
}

// settle marks the end of the work, which cause has interrupted, in all members.
func (b *bundle) settle(cause error) {
	for _, m := range b.members {
		m.unwatch()
		m.lock.mu.Lock()
		if cause != nil {
			m.interruptLocked(cause)
		}
		m.phase = cleaning
		m.cancel(ErrReleased)
		m.lock.mu.Unlock()
	}
}

// leave releases all locks, the last acquired first. None keeps the others.
func (b *bundle) leave(ctx context.Context, limit time.Duration) []departure {
	leavers := make([]leaver, 0, len(b.members))
	for _, m := range b.members {
		leavers = append(leavers, m.lock.remove(m))
	}
	end := time.Now().Add(limit)
	departures := make([]departure, 0, len(leavers))
	for _, leave := range slices.Backward(leavers) {
		departures = append(departures, leave(ctx, time.Until(end)))
	}
	return departures
}
