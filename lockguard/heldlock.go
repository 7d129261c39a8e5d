package lockguard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// releaseTimeout is how long a release waits for ZooKeeper's confirmation, and
// then for the observers. It has nothing to do with how long the lock stays.
const releaseTimeout = 5 * time.Second

// A heldLock is one request and the grant it leads to, with all Holds on it: the
// first, and those nested in it.
//
// Notices of the layer below may come as soon as the request is made, also
// before the layer below has returned the grant. Contexts are cancelled under
// mu, so that the causes of nested Holds agree; observers are told outside.
type heldLock struct {
	guard       *Guard
	claim       claim         // as declared
	requirement Requirement   // likewise; once granted, what it was granted for: guarded by mu
	mark        *recipes.Mark // the request itself is an operator's word, and no override concerns it
	stream      *stream
	started     time.Time
	timeout     *time.Duration // for the grant, from started on; nil: none
	limited     bool           // timeout is set, else it is found out
	cleansUp    bool           // it joins a hold to clean up for it
	early       bool           // granted before other locks that the work needs
	yields      bool           // other locks are held that must not wait for a freeze to end
	under       []string       // IDs of what the same work holds
	ticket      *Ticket        // that is told where the request stands; nil: none
	announced   bool
	frozen      bool               // and that was told
	grant       grant              // set before the first Hold
	bypass      *override.Override // by which the work runs without the lock; set before the first Hold
	lostSignal  chan struct{}      // closed when the lock is lost

	mu       mutex
	since    time.Time
	leaseEnd time.Time
	lease    time.Duration
	phase    lockPhase
	first    *Hold   // that the others are nested in
	holds    []*Hold // whose work or hooks have not returned
	asked    error   // the first *PreemptedError, *LeaseExpiredError or *OverriddenError
	overran  bool
	sharing  int           // > 0: it is, or may soon be, shared
	risk     chan struct{} // closed in a silence of ZooKeeper
	riskEnd  time.Time     // when the lock will be lost to that silence
	lost     *LostError

	accedes     bool                       // it joins or adopts a hold
	askedBefore []recipes.PreemptRequested // which was asked to go before the first Hold was open

	// Of the present attempt to acquire the lock.
	attempt  int                        // 1, 2, 3 ...: what an earlier one brings to light is too late
	made     offer                      // with which it stands in ZooKeeper, as far as known
	offers   []offer                    // made, and those that came after it
	revised  chan struct{}              // closed with the next offer
	taken    bool                       // the layer below has asked for an offer
	asks     map[string]priority.Reason // for which holders, by ID, were asked to go
	deciding bool                       // somebody is to decide, or has decided
	awaiting context.Context            // ends when there is nothing to decide any more
	unask    context.CancelCauseFunc    // what is to be decided now is not needed any more
	askedFor time.Time                  // since when the holders are asked to go about whom is decided
	approval *Decision                  // by which it may take the lock by force
	spared   time.Duration              // what that leaves the holders
	denied   error                      // why it may not

	told      override.Effect // with the last Overridden
	prolonged time.Duration   // the lease, from the grant on, that overrides have seen to
	granted   chan struct{}   // closed with the grant
	unfollow  func()          // ends the watch on overrides
}

type lockPhase uint8

const (
	asking  lockPhase = iota
	holding           // work or hooks run
	leaving           // work and hooks have returned, or the request has failed
)

func newHeldLock(ctx context.Context, g *Guard, requirement Requirement) *heldLock {
	requirement.Class = cmp.Or(requirement.Class, g.classes.of(requirement.Scope))
	return &heldLock{
		guard:       g,
		claim:       g.claim(requirement),
		requirement: requirement,
		unfollow:    func() {},
		stream: &stream{guard: g, ctx: context.WithoutCancel(ctx), about: Subject{
			ID:       strconv.FormatUint(rand.Uint64(), 36),
			Scope:    requirement.Scope,
			Identity: requirement.identity(),
			Mode:     requirement.Mode,
			Priority: requirement.Priority,
		}},
		started:    time.Now(),
		lostSignal: make(chan struct{}),
		risk:       make(chan struct{}),
		lease:      requirement.LeaseTimeout,
		ticket:     g.ticket,
	}
}

// remove takes h, whose work and hooks have returned, off the lock. It returns
// the loss, if the lock was lost before, and what releases the lock, if h was
// the last on it; this waits for ZooKeeper's confirmation, within a limit.
func (l *heldLock) remove(h *Hold) (lost *LostError, release func(context.Context, time.Duration) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.endLocked()
	l.holds = slices.DeleteFunc(l.holds, func(o *Hold) bool { return o == h })
	lost, cause, since := l.lost, h.cause, h.since
	if len(l.holds) > 0 {
		return lost, func(context.Context, time.Duration) error { return nil }
	}
	l.phase = leaving
	l.unfollow()
	return lost, func(ctx context.Context, limit time.Duration) error {
		return l.release(ctx, limit, cause, since, lost != nil)
	}
}

// release gives the lock away. It returns a *LostError if the lock may have
// been lost before the work and the hooks returned.
func (l *heldLock) release(ctx context.Context, limit time.Duration, cause error, since time.Time, told bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	began := time.Now()
	err := l.grant.Release(ctx)

	l.mu.Lock()
	took := time.Since(began)
	held := time.Since(l.since)
	lost := l.lost // also when it was noticed meanwhile
	if errors.As(err, &lost); err != nil && lost != nil {
		err = lost
	}
	switch {
	case told:
	case err != nil && lost != nil && lost.Reason != recipes.LossSession:
		l.markLostLocked(lost)
		l.stream.note(Lost{held, lost})
	default:
		l.stream.note(Released{held, cause, err, since, took})
	}
	l.mu.Unlock()
	l.stream.deliver()
	l.flush(ctx)
	return err
}

// flush waits until the observers have been told everything.
func (l *heldLock) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	l.stream.flush(ctx)
}

// check returns the loss, also one that was not noticed yet.
func (l *heldLock) check() error {
	err := l.grant.Check()
	lost := (*LostError)(nil)
	l.mu.Lock()
	if errors.As(err, &lost) {
		l.loseLocked(lost) // if the notice has not come yet
	}
	lost = l.lost
	l.mu.Unlock()
	l.stream.deliverSoon()
	if lost != nil {
		return lost
	}
	return err
}

// standing returns why the holder has to go, or has gone.
func (l *heldLock) standing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case l.phase == leaving:
		return ErrReleased
	}
	return l.asked
}

// age says when the lock was acquired, how long its lease is, and whether h
// shares it with an outer Hold.
func (l *heldLock) age(h *Hold) (since time.Time, lease time.Duration, nested bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.lease, l.first != h
}
