package lockguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A bundle is several locks that are held together. There is a Hold on each of
// them, a member, as if each had been acquired alone. One more, the front, is
// nested in the member of the first lock given: it has the work and the hooks.
// What happens to a member happens to the front.
type bundle struct {
	guard      *Guard
	members    []*Hold   // in the order in which they were acquired
	given      []*tenure // in the order of the requirements
	lostSignal chan struct{}
	cancel     context.CancelCauseFunc // ends the wait for the locks

	mu    sync.Mutex
	front *Hold
	over  error // why there will be no front
}

// giveBackLimit is how long a call that has failed waits until what it has is
// given back; what is not confirmed by then goes on in the background.
const giveBackLimit = 500 * time.Millisecond

// gather acquires several locks, in one bundle after the other.
func (g *Guard) gather(ctx context.Context, requirements []Requirement, hooks []Hook) (*Hold, error) {
	limit := newLimit(requirements)
	for {
		b := &bundle{guard: g, lostSignal: make(chan struct{})}
		hold, err := b.acquire(ctx, requirements, hooks, limit)
		switch {
		case err == nil:
			return hold, nil
		case !b.again(err) || limit.isTry():
			return nil, limit.explain(err)
		case ctx.Err() != nil:
			return nil, notAcquired(ctx, requirements[0].Scope, ctx.Err())
		}
	}
}

// acquire acquires all locks, and gives back what it has if one fails.
func (b *bundle) acquire(ctx context.Context, requirements []Requirement, hooks []Hook, limit limit) (front *Hold, err error) {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.cancel = cancel
	defer func() {
		if err != nil {
			b.settle(b.why())
			b.leave(ctx, giveBackLimit)
		}
	}()
	for i, r := range inOrder(requirements) {
		r.AcquireTimeout = limit.left()
		member, gone, err := b.guard.acquire(wait, ctx, r, nil, i < len(requirements)-1)
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
	if err := b.begin(wait, limit); err != nil {
		return nil, err
	}
	return b.open(ctx, requirements, hooks)
}

// inOrder returns requirements in the order that all bundles have in common.
func inOrder(requirements []Requirement) []Requirement {
	return slices.SortedFunc(slices.Values(requirements), func(a, b Requirement) int { return cmp.Compare(a.Scope, b.Scope) })
}

// add makes h a member. It returns why h was interrupted already, if it was.
func (b *bundle) add(h *Hold) error {
	b.members = append(b.members, h)
	h.tenure.mu.Lock()
	h.memberOf = b
	cause := h.cause
	h.tenure.mu.Unlock()
	if cause == nil {
		return nil
	}
	_, err := b.giveUp(cause)
	return err
}

// begin gives the leases that were used up by waiting their whole length again,
// and starts the minimum runtimes: whoever is more important need not wait for
// the end of one that has not begun.
func (b *bundle) begin(ctx context.Context, limit limit) error {
	for _, m := range b.members {
		since, lease, nested := m.tenure.age(m)
		if nested {
			continue
		}
		err := limit.during(ctx, m.tenure, func(ctx context.Context) error {
			if time.Since(since) >= lease/10 {
				if err := m.tenure.extend(ctx, lease); err != nil {
					return err
				}
			}
			return m.tenure.protect(ctx)
		})
		if err != nil {
			if isCause(err) {
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
			if m.tenure.requirement.Scope == r.Scope {
				b.given = append(b.given, m.tenure)
			}
			cleanup = min(cleanup, m.cleanupTimeout)
		}
	}
	t := b.given[0]
	first := b.members[slices.IndexFunc(b.members, func(m *Hold) bool { return m.tenure == t })]

	t.mu.Lock()
	front := t.addHoldLocked(ctx, requirements[0], hooks)
	front.bundle, front.cleanupTimeout, front.inCleanup = b, cleanup, first.inCleanup
	t.mu.Unlock()

	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.over
	if err == nil && ctx.Err() != nil {
		err = notAcquired(ctx, t.requirement.Scope, ctx.Err())
	}
	if err != nil {
		front.unwatch()
		_, _ = t.remove(front)
		return nil, err
	}
	b.front = front
	return front, nil
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

// press is called when a member was asked to go.
func (b *bundle) press(cause error, deadline time.Time, grace time.Duration) {
	front, _ := b.giveUp(cause)
	if front == nil {
		return
	}
	front.tenure.mu.Lock()
	front.pressLocked(cause, deadline, grace)
	front.tenure.mu.Unlock()
	b.interrupt(cause)
}

// lose is called when the lock of a member was lost.
func (b *bundle) lose(lost *LostError) {
	front, _ := b.giveUp(lost)
	if front == nil {
		return
	}
	front.tenure.mu.Lock()
	front.loseLocked(lost)
	front.tenure.mu.Unlock()
	b.mu.Lock()
	if !isClosed(b.lostSignal) {
		close(b.lostSignal) // whoever sees it finds the context ended
	}
	b.mu.Unlock()
	b.interrupt(lost)
}

// interrupt lets nothing new be started under any of the locks.
func (b *bundle) interrupt(cause error) {
	for _, m := range b.members {
		m.tenure.mu.Lock()
		m.interruptLocked(cause)
		m.tenure.mu.Unlock()
	}
}

// settle marks the end of the work, which cause has interrupted, in all members.
func (b *bundle) settle(cause error) {
	for _, m := range b.members {
		m.unwatch()
		m.tenure.mu.Lock()
		if cause != nil {
			m.interruptLocked(cause)
		}
		m.phase = cleaning
		m.cancel(ErrReleased)
		m.tenure.mu.Unlock()
	}
}

// leave releases all locks, the last acquired first. None keeps the others.
func (b *bundle) leave(ctx context.Context, limit time.Duration) []departure {
	type exit struct {
		lost    *LostError
		release func(context.Context, time.Duration) error
	}
	exits := make([]exit, 0, len(b.members))
	for _, m := range b.members {
		lost, release := m.tenure.remove(m)
		exits = append(exits, exit{lost, release})
	}
	end := time.Now().Add(limit)
	departures := make([]departure, 0, len(exits))
	for _, e := range slices.Backward(exits) {
		departures = append(departures, departure{e.lost, e.release(ctx, time.Until(end))})
	}
	return departures
}

// tenures are those of the locks that h is on.
func (h *Hold) tenures() []*tenure {
	if h.bundle != nil {
		return h.bundle.given
	}
	return []*tenure{h.tenure}
}

// on returns the Hold on a scope that h is, or that is held together with it.
func (h *Hold) on(g *Guard, scope string) (*Hold, bool) {
	all := []*Hold{h}
	if h.bundle != nil {
		all = append(all, h.bundle.members...)
	}
	for _, h := range all {
		if h.tenure.guard.origin == g.origin && h.tenure.requirement.Scope == scope {
			return h, true
		}
	}
	return nil, false
}

func (h *Hold) describe() string {
	all := h.tenures()
	scopes := make([]string, len(all))
	for i, t := range all {
		scopes[i] = fmt.Sprintf("%q", t.requirement.Scope)
	}
	if len(all) == 1 {
		return "lock " + scopes[0]
	}
	return "locks " + strings.Join(scopes, ", ")
}

// age says when the lock was acquired, how long its lease is, and whether h
// shares it with an outer Hold.
func (t *tenure) age(h *Hold) (since time.Time, lease time.Duration, nested bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since, t.lease, t.first != h
}

// isCause reports whether err is why a Hold is interrupted.
func isCause(err error) bool {
	return errors.As(err, new(*PreemptedError)) || errors.As(err, new(*LeaseExpiredError)) || errors.As(err, new(*LostError))
}

// A limit bounds the acquisition of several locks.
type limit struct {
	start   time.Time
	timeout *time.Duration // the shortest of all; nil when there is none
}

func newLimit(requirements []Requirement) limit {
	l := limit{start: time.Now()}
	for _, r := range requirements {
		if t := r.AcquireTimeout; t != nil && (l.timeout == nil || *t < *l.timeout) {
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
	e, ok := errors.AsType[*recipes.NotAcquiredError](err)
	if !ok || e.Waited == 0 {
		return err
	}
	inAll := *e // the observers have the other one
	inAll.Waited = time.Since(l.start)
	return &inAll
}

// during does what is left to do at one lock.
func (l limit) during(ctx context.Context, t *tenure, do func(context.Context) error) error {
	if left := l.left(); left != nil && !l.isTry() {
		over := &recipes.NotAcquiredError{Scope: t.requirement.Scope, Waited: *l.timeout}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *left, over)
		defer cancel()
	}
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		err = notAcquired(ctx, t.requirement.Scope, err)
	}
	return err
}

// refuseSeveral returns everything that is wrong with these requirements
// together, and with hooks under all of them.
func refuseSeveral(requirements []Requirement, hooks []Hook) error {
	if len(requirements) == 0 {
		return &RequestError{Field: "requirements", Reason: "there is none; give one for each lock"}
	}
	var problems []error
	first := make(map[string]int, len(requirements))
	for i, r := range requirements {
		at := fmt.Sprintf("requirements[%d].", i)
		problems = append(problems, within(at, r.Validate())...)
		problems = append(problems, within(at, r.refuseHooks(hooks))...)
		if j, twice := first[r.Scope]; twice {
			problems = append(problems, &RequestError{
				Field:  at + "scope",
				Reason: fmt.Sprintf("%q is that of requirements[%d] already; give each scope once", r.Scope, j),
			})
			continue
		}
		first[r.Scope] = i
	}
	return errors.Join(problems...)
}

// within returns the single problems of err, their fields with a prefix.
func within(prefix string, err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, err := range all.Unwrap() {
			problems = append(problems, within(prefix, err)...)
		}
		return problems
	}
	if r, ok := errors.AsType[*RequestError](err); ok {
		err = &RequestError{Field: prefix + r.Field, Reason: r.Reason}
	}
	return []error{err}
}
