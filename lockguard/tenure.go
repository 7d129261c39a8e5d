package lockguard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// releaseTimeout is how long a release waits for ZooKeeper's confirmation, and
// then for the observers. It has nothing to do with how long the lock stays.
const releaseTimeout = 5 * time.Second

// A tenure is one request and the grant it leads to, with all Holds on it: the
// first, and those nested in it.
//
// Notices of the layer below may come as soon as the request is made, also
// before the layer below has returned the grant. Contexts are cancelled under
// mu, so that the causes of nested Holds agree; observers are told outside.
type tenure struct {
	guard       *Guard
	requirement Requirement
	stream      *stream
	started     time.Time
	early       bool          // granted before other locks that the work needs
	grant       grant         // set before the first Hold
	lostSignal  chan struct{} // closed when the lock is lost

	mu       sync.Mutex
	subject  Subject // At is filled in for each event
	since    time.Time
	leaseEnd time.Time
	lease    time.Duration
	phase    tenurePhase
	first    *Hold   // that the others are nested in
	holds    []*Hold // whose work or hooks have not returned
	asked    error   // the first *PreemptedError or *LeaseExpiredError
	overran  bool
	sharing  int           // > 0: it is, or may soon be, shared
	later    []func()      // to be called when mu is free
	risk     chan struct{} // closed in a silence of ZooKeeper
	riskEnd  time.Time     // when the lock will be lost to that silence
	lost     *LostError
}

type tenurePhase uint8

const (
	asking  tenurePhase = iota
	holding             // work or hooks run
	leaving             // work and hooks have returned, or the request has failed
)

func newTenure(ctx context.Context, g *Guard, requirement Requirement) *tenure {
	return &tenure{
		guard:       g,
		requirement: requirement,
		stream:      &stream{guard: g, ctx: context.WithoutCancel(ctx)},
		started:     time.Now(),
		lostSignal:  make(chan struct{}),
		risk:        make(chan struct{}),
		lease:       requirement.LeaseTimeout,
		subject: Subject{
			ID:       strconv.FormatUint(rand.Uint64(), 36),
			Scope:    requirement.Scope,
			Owner:    requirement.Owner,
			Message:  requirement.Message,
			Mode:     requirement.Mode,
			Priority: requirement.Priority,
		},
	}
}

// begin acquires the lock and returns the first Hold, which derives from caller.
// When it returns an error the lock is not held, or is being given away.
func (t *tenure) begin(ctx, caller context.Context, hooks []Hook) (*Hold, error) {
	t.stream.add(Waiting{t.aboutLocked()}) // nobody else knows t yet
	t.stream.deliver()
	t.subject.Trace = t.guard.trace(t.stream.ctx, t.subject)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	request := t.requirement.request(t.subject.Trace, t.notice)
	if t.early {
		request.MinRuntime = 0
	}
	g, err := t.guard.locker.acquire(ctx, t.requirement.Scope, request)
	if err != nil {
		return nil, err
	}
	since := time.Now()
	token, err := g.Token(ctx)
	var hold *Hold
	if err == nil {
		hold, err = t.open(ctx, caller, g, token, since, hooks)
	}
	if err != nil {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		_ = g.Release(release) // tried on in the background
		return nil, err
	}
	t.stream.deliver()
	return hold, nil
}

// open returns the first Hold, unless the lock has to be given away before any
// work was done.
func (t *tenure) open(ctx, caller context.Context, g grant, token Token, since time.Time, hooks []Hook) (*Hold, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.lost != nil:
		return nil, t.lost
	case t.asked != nil:
		return nil, t.asked
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	t.grant = g
	t.phase = holding
	t.subject.Token = token
	t.since = since
	t.leaseEnd = since.Add(t.lease)
	t.stream.add(Acquired{t.aboutLocked(), since.Sub(t.started)})
	t.first = t.addHoldLocked(caller, t.requirement, hooks)
	return t.first, nil
}

// refused tells that the request failed, and says why.
func (t *tenure) refused(ctx context.Context, err error) error {
	t.mu.Lock()
	t.phase = leaving
	switch {
	case t.lost != nil:
		err = t.lost // it explains whatever else failed
	case t.asked == nil || !errors.Is(err, t.asked):
		err = notAcquired(ctx, t.requirement.Scope, err)
	}
	t.stream.add(NotAcquired{t.aboutLocked(), time.Since(t.started), err})
	t.mu.Unlock()
	t.stream.deliver()
	t.flush(ctx)
	return err
}

// notice is told by the layer below what happens. It must not block.
func (t *tenure) notice(notice recipes.Notice) {
	t.mu.Lock()
	t.noticeLocked(notice)
	t.unlock()
	t.stream.deliverSoon()
}

// laterLocked has f called by unlock.
func (t *tenure) laterLocked(f func()) { t.later = append(t.later, f) }

// unlock unlocks mu and tells the bundles of Holds what has happened to them:
// they lock other tenures.
func (t *tenure) unlock() {
	later := t.later
	t.later = nil
	t.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// isGone reports whether a request failed because the lock was granted, and had
// to be given away or was lost at once.
func (t *tenure) isGone(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.As(err, new(*LostError)) || t.asked != nil && errors.Is(err, t.asked)
}

func (t *tenure) noticeLocked(notice recipes.Notice) {
	about := t.aboutLocked()
	if lost, ok := notice.(recipes.Lost); ok {
		t.loseLocked(lost.Err)
		return
	}
	if t.phase == leaving || t.lost != nil {
		return // it comes too late to change anything
	}
	switch n := notice.(type) {
	case recipes.Queued:
		t.stream.add(Queued{about, n.Position, n.Holders})
	case recipes.Displaced:
		t.stream.add(Displaced{about, n.By})
	case recipes.Requeued:
		t.stream.add(Requeued{about, n.Cause})
	case recipes.PreemptSent:
		t.stream.add(PreemptSent{about, n.Holder, n.Reason, n.Grace})
	case recipes.TookOver:
		t.stream.add(TakenOver{about, n.From})
	case recipes.PreemptAsked:
		t.askLocked(n)
	case recipes.PreemptWithdrawn:
		if t.phase == holding {
			t.stream.add(PreemptionWithdrawn{about})
		}
	case recipes.AtRisk:
		t.markRiskLocked(n.Deadline)
		if t.phase == holding {
			t.stream.add(AtRisk{about, n.Deadline})
		}
	}
}

// askLocked interrupts the work. The first request is the cause, also when it
// is withdrawn; later ones can only shorten the grace.
func (t *tenure) askLocked(n recipes.PreemptAsked) {
	if t.asked == nil {
		t.asked = t.cause(n)
	}
	for _, h := range t.holds {
		h.askLocked(t.asked, n.Deadline, n.Grace)
	}
	if t.phase == holding {
		t.stream.add(PreemptRequested{t.aboutLocked(), n.By, n.Reason, n.Grace, n.Deadline, n.Forceful, n.Trace})
	}
}

func (t *tenure) cause(n recipes.PreemptAsked) error {
	if n.Reason == priority.LeaseExpired {
		return &LeaseExpiredError{
			Scope: t.requirement.Scope, By: n.By.Owner, Priority: n.By.Priority,
			Lease: t.lease, Grace: n.Grace, Deadline: n.Deadline,
		}
	}
	return &PreemptedError{
		Scope: t.requirement.Scope, By: n.By.Owner, Priority: n.By.Priority,
		Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
	}
}

// loseLocked interrupts work and hooks. A loss that is noticed when both have
// returned is left to release.
func (t *tenure) loseLocked(lost *LostError) {
	if !t.markLostLocked(lost) {
		return
	}
	if t.phase == holding {
		t.stream.add(Lost{t.aboutLocked(), time.Since(t.since), lost})
	}
}

func (t *tenure) markLostLocked(lost *LostError) (first bool) {
	if t.lost != nil {
		return false
	}
	t.lost = lost
	for _, h := range t.holds {
		h.loseLocked(lost)
	}
	close(t.lostSignal) // whoever sees it finds the contexts ended
	return true
}

func (t *tenure) markRiskLocked(deadline time.Time) {
	t.riskEnd = deadline
	if !isClosed(t.risk) {
		close(t.risk)
	}
}

// atRisk returns what is closed in a silence. The deadline moves on with the
// answer that ends it.
func (t *tenure) atRisk() <-chan struct{} {
	const sameDeadline = time.Millisecond // computed at another moment
	now := t.grant.Deadline()
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(t.risk) && now.Sub(t.riskEnd) > sameDeadline {
		t.risk = make(chan struct{})
	}
	return t.risk
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// remove takes h, whose work and hooks have returned, off the tenure. It returns
// the loss, if the lock was lost before, and what releases the lock, if h was
// the last on it; this waits for ZooKeeper's confirmation, within a limit.
func (t *tenure) remove(h *Hold) (lost *LostError, release func(context.Context, time.Duration) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.endLocked()
	t.holds = slices.DeleteFunc(t.holds, func(o *Hold) bool { return o == h })
	lost, cause := t.lost, h.cause
	if len(t.holds) > 0 {
		return lost, func(context.Context, time.Duration) error { return nil }
	}
	t.phase = leaving
	return lost, func(ctx context.Context, limit time.Duration) error { return t.release(ctx, limit, cause, lost != nil) }
}

// release gives the lock away. It returns a *LostError if the lock may have
// been lost before the work and the hooks returned.
func (t *tenure) release(ctx context.Context, limit time.Duration, cause error, told bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := t.grant.Release(ctx)

	t.mu.Lock()
	held := time.Since(t.since)
	lost := t.lost // also when it was noticed meanwhile
	if errors.As(err, &lost); err != nil && lost != nil {
		err = lost
	}
	switch {
	case told:
	case err != nil && lost != nil && lost.Reason != recipes.LossSession:
		t.markLostLocked(lost)
		t.stream.add(Lost{t.aboutLocked(), held, lost})
	default:
		t.stream.add(Released{t.aboutLocked(), held, cause, err})
	}
	t.unlock()
	t.stream.deliver()
	t.flush(ctx)
	return err
}

// flush waits until the observers have been told everything.
func (t *tenure) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	t.stream.flush(ctx)
}

// extend starts a new lease.
func (t *tenure) extend(ctx context.Context, lease time.Duration) error {
	if lease <= t.requirement.CleanupTimeout {
		return &RequestError{
			Field:  "lease_timeout",
			Reason: "extending to " + lease.String() + " leaves no time beside cleanup_timeout (" + t.requirement.CleanupTimeout.String() + "); ask for a longer lease",
		}
	}
	if err := t.standing(); err != nil {
		return err
	}
	sent := time.Now()
	if err := t.grant.Extend(ctx, lease); err != nil {
		return t.refusal(err)
	}
	t.mu.Lock()
	t.lease = lease
	t.leaseEnd = sent.Add(lease)
	t.stream.add(Extended{t.aboutLocked(), lease})
	t.mu.Unlock()
	t.stream.deliver()
	return nil
}

// protect starts the minimum runtime, if it has not begun with the grant.
func (t *tenure) protect(ctx context.Context) error {
	if !t.early || t.requirement.MinRuntime == 0 {
		return nil
	}
	if err := t.standing(); err != nil {
		return err
	}
	if err := t.grant.Protect(ctx, t.requirement.MinRuntime); err != nil {
		return t.refusal(err)
	}
	return nil
}

// refusal is what a holder is told whose lease was not extended.
func (t *tenure) refusal(err error) error {
	if why := t.standing(); why != nil {
		return why
	}
	if pending := (*recipes.PreemptPendingError)(nil); errors.As(err, &pending) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.cause(pending.By) // the notice has not come yet
	}
	if lost := (*LostError)(nil); errors.As(err, &lost) { // nor this one
		t.mu.Lock()
		t.loseLocked(lost)
		t.unlock()
		t.stream.deliver()
	}
	return err
}

// check returns the loss, also one that was not noticed yet.
func (t *tenure) check() error {
	err := t.grant.Check()
	lost := (*LostError)(nil)
	t.mu.Lock()
	if errors.As(err, &lost) {
		t.loseLocked(lost) // if the notice has not come yet
	}
	lost = t.lost
	t.unlock()
	t.stream.deliverSoon()
	if lost != nil {
		return lost
	}
	return err
}

// standing returns why the holder has to go, or has gone.
func (t *tenure) standing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.lost != nil:
		return t.lost
	case t.phase == leaving:
		return ErrReleased
	}
	return t.asked
}

// aboutLocked is the subject of an event that happens now.
func (t *tenure) aboutLocked() Subject {
	s := t.subject
	s.At = time.Now()
	return s
}
