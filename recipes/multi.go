package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Multi is several locks taken as one: all of them, or none. It holds no
// state of its own, and may be acquired many times, also at once.
//
// The locks are requested one after the other, in the order of their scopes
// (by bytes), whatever order the parts are given in: two Multis never wait for
// each other in a circle. A Multi keeps that promise to other Multis, not to a
// caller that holds one of the scopes, or another one, by other means.
//
// A Multi that waits for a later lock and is asked to give up an earlier one
// (preempted, or its lease is over), or loses one, gives back at once all that
// it has, the last one first, and starts anew within the same deadline, from
// the back of the queues: see StartedAnew. So whoever is more important waits
// for no Multi that cannot work yet.
type Multi struct {
	c       *Client
	parts   []multiPart
	timeout *time.Duration // the shortest of the parts'
}

// A Part is one lock of a Multi: a scope, and the request for it.
//
// The shortest AcquireTimeout of the parts bounds the acquisition of all of
// them, from the call on. 0 in any part makes it a try: all locks must be free.
type Part struct {
	Scope   string
	Request Request
}

type multiPart struct {
	lock *PriorityLock
	req  Request
}

// StartedAnew is a Notice for every part of a Multi: one of its locks had to be
// given up, or was lost, before the others were granted. All that was granted
// is given back, and the Multi starts anew. It may follow the Lost of that
// lock.
type StartedAnew struct {
	Scope string // of that lock
	Cause error  // *GivenUpError or *LostError
}

func (StartedAnew) notice() {}

// GivenUpError says that a Multi was asked to give up one of its locks before
// it had all of them, and did.
type GivenUpError struct {
	Scope string
	By    PreemptAsked
}

func (e *GivenUpError) Error() string {
	return fmt.Sprintf("lock %q given up before the other locks were granted: %q (priority %d) asked for it", e.Scope, e.By.By.Owner, e.By.By.Priority)
}

// Multi returns the locks of several scopes as one. It returns everything that
// is wrong with the parts, joined (errors.Join): *RequestError for no parts, a
// scope that is there twice or cannot be stored, a request that can never work.
func (c *Client) Multi(parts ...Part) (*Multi, error) {
	m := &Multi{c: c}
	var problems []error
	if len(parts) == 0 {
		problems = append(problems, &RequestError{Field: "scope", Reason: "there is none; give a part for each lock"})
	}
	seen := make(map[string]bool, len(parts))
	for _, p := range parts {
		if seen[p.Scope] {
			problems = append(problems, &RequestError{Field: "scope", Reason: fmt.Sprintf("%q is there twice; give each scope once", p.Scope)})
			continue
		}
		seen[p.Scope] = true
		lock, err := c.PriorityLock(p.Scope)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if err := p.Request.complete(c); err != nil {
			problems = append(problems, fmt.Errorf("lock %q: %w", p.Scope, err))
		}
		if t := p.Request.AcquireTimeout; t != nil && (m.timeout == nil || *t < *m.timeout) {
			m.timeout = new(*t)
		}
		m.parts = append(m.parts, multiPart{lock: lock, req: p.Request})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.SortFunc(m.parts, func(a, b multiPart) int { return cmp.Compare(a.lock.scope, b.lock.scope) })
	return m, nil
}

// Scopes returns what the locks protect, in the order in which they are taken.
func (m *Multi) Scopes() []string {
	scopes := make([]string, len(m.parts))
	for i, p := range m.parts {
		scopes[i] = p.lock.scope
	}
	return scopes
}

// Acquire waits for all locks and returns the grants of them, which must be
// released. Its errors are those of PriorityLock.Acquire, about the lock that
// could not be had; what was granted before is given back then, the last one
// first. The time in a *NotAcquiredError counts from the call. A try that has to
// give up a lock does not start anew: it returns a *NotAcquiredError that wraps
// the cause. For the moment that it takes to find a later lock held, a try holds
// the earlier ones.
//
// A lease counts from the grant of its lock. What was used up of it while later
// locks were waited for is given to it again (Grant.Extend), unless that is
// less than a tenth of it. A minimum runtime counts from the grant of the last
// lock (Grant.Protect): whoever is more important need not wait for the end of
// one that has not begun.
func (m *Multi) Acquire(ctx context.Context) (*MultiGrant, error) {
	start := time.Now()
	listeners := make([]*partListener, len(m.parts))
	for i, p := range m.parts {
		listeners[i] = &partListener{f: p.req.Notify}
	}
	for {
		r := &round{m: m, start: start, listeners: listeners}
		grant, err := r.run(ctx)
		if err == nil {
			return grant, nil
		}
		gone := r.gone()
		switch {
		case gone == nil || !errors.Is(err, gone.Cause): // another reason came first
			return nil, m.explain(err, start)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case m.try():
			return nil, &NotAcquiredError{Scope: gone.Scope, Err: gone.Cause}
		}
		for _, l := range listeners {
			l.tell(*gone)
		}
	}
}

func (m *Multi) try() bool { return m.timeout != nil && *m.timeout == 0 }

// left is the acquire timeout of a request that is made now.
func (m *Multi) left(start time.Time) *time.Duration {
	if m.timeout == nil || *m.timeout == 0 {
		return m.timeout
	}
	return new(max(*m.timeout-time.Since(start), time.Nanosecond)) // 0 would be a try
}

// explain makes the error of one lock one of all.
func (m *Multi) explain(err error, start time.Time) error {
	if e, ok := errors.AsType[*NotAcquiredError](err); ok && !m.try() {
		e.Waited = time.Since(start)
	}
	return err
}

// A round is one try to get all locks.
type round struct {
	m         *Multi
	start     time.Time // of the call
	listeners []*partListener
	cancel    context.CancelCauseFunc

	mu       sync.Mutex
	complete bool         // all are held: what happens is the holder's business
	lost     *StartedAnew // why it is over
}

func (r *round) run(ctx context.Context) (_ *MultiGrant, err error) {
	// Ends as soon as one of the locks has to be given up.
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.cancel = cancel
	held := &MultiGrant{}
	defer func() {
		if err != nil {
			r.giveBack(ctx, held)
		}
	}()
	for i, p := range r.m.parts {
		req := p.req
		req.AcquireTimeout = r.m.left(r.start)
		if i < len(r.m.parts)-1 {
			req.MinRuntime = 0 // until all are held, see Acquire
		}
		req.Notify = r.listen(i)
		g, err := p.lock.Acquire(limited, req)
		if err != nil {
			if lost, ok := errors.AsType[*LostError](err); ok { // granted, and gone already
				return nil, r.giveUp(p.lock.scope, lost)
			}
			return nil, err
		}
		held.grants = append(held.grants, g)
		held.since = append(held.since, time.Now())
	}
	if err := r.settle(limited, held); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return nil, r.lost.Cause
	}
	r.complete = true
	return held, nil
}

// settle gives the leases that were used up by waiting their whole length
// again, and starts the minimum runtimes.
func (r *round) settle(ctx context.Context, held *MultiGrant) error {
	if left := r.m.left(r.start); left != nil && *left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *left, errAcquireTimeout)
		defer cancel()
	}
	for i, g := range held.grants {
		var err error
		if lease := g.req.LeaseTimeout; time.Since(held.since[i]) >= lease/10 {
			err = g.Extend(ctx, lease)
		}
		if least := r.m.parts[i].req.MinRuntime; err == nil && g.req.MinRuntime < least {
			err = g.Protect(ctx, least)
		}
		if err != nil {
			if errors.Is(err, errAcquireTimeout) {
				return &NotAcquiredError{Scope: g.Scope(), Err: r.m.c.unavailable()}
			}
			if pending, ok := errors.AsType[*PreemptPendingError](err); ok {
				return r.giveUp(g.Scope(), &GivenUpError{Scope: g.Scope(), By: pending.By})
			}
			if lost, ok := errors.AsType[*LostError](err); ok {
				return r.giveUp(g.Scope(), lost)
			}
			return err
		}
	}
	return nil
}

// giveBack releases what is held, and tells nobody of it any more.
func (r *round) giveBack(ctx context.Context, held *MultiGrant) {
	for _, l := range r.listeners {
		l.deafen()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBudget)
	defer cancel()
	_ = held.Release(ctx) // goes on in the background
}

// giveUp ends the round, unless all locks are held. It returns why the round is
// over: the first cause.
func (r *round) giveUp(scope string, cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.complete {
		return cause
	}
	if r.lost == nil {
		r.lost = &StartedAnew{Scope: scope, Cause: cause}
		r.cancel(cause)
	}
	return r.lost.Cause
}

func (r *round) gone() *StartedAnew {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// listen returns what the ith request of this round is to notify.
func (r *round) listen(i int) func(Notice) {
	l, scope := r.listeners[i], r.m.parts[i].lock.scope
	hears := l.hear()
	return func(n Notice) {
		hears(n)
		switch n := n.(type) {
		case PreemptAsked:
			_ = r.giveUp(scope, &GivenUpError{Scope: scope, By: n})
		case Lost:
			_ = r.giveUp(scope, n.Err)
		}
	}
}

// A partListener is told, one at a time, what happens to one part, in one round
// after the other.
type partListener struct {
	f     func(Notice)
	mu    sync.Mutex
	round int // a request of an earlier one is not heard any more
}

// hear returns what a new request is to notify.
func (l *partListener) hear() func(Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	round := l.round
	return func(n Notice) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.f != nil && l.round == round {
			l.f(n)
		}
	}
}

func (l *partListener) deafen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.round++
}

func (l *partListener) tell(n Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.f(n)
	}
}
