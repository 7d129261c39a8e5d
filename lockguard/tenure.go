package lockguard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
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

	mu       sync.Mutex
	subject  Subject // At is filled in for each event
	since    time.Time
	leaseEnd time.Time
	lease    time.Duration
	phase    tenurePhase
	first    *Hold   // that the others are nested in
	holds    []*Hold // whose work or hooks have not returned
	asked    error   // the first *PreemptedError, *LeaseExpiredError or *OverriddenError
	overran  bool
	sharing  int           // > 0: it is, or may soon be, shared
	later    []func()      // to be called when mu is free
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

type tenurePhase uint8

const (
	asking  tenurePhase = iota
	holding             // work or hooks run
	leaving             // work and hooks have returned, or the request has failed
)

func newTenure(ctx context.Context, g *Guard, requirement Requirement) *tenure {
	requirement.Class = cmp.Or(requirement.Class, g.classes.of(requirement.Scope))
	return &tenure{
		guard:       g,
		claim:       g.claim(requirement),
		requirement: requirement,
		unfollow:    func() {},
		stream:      &stream{guard: g, ctx: context.WithoutCancel(ctx)},
		started:     time.Now(),
		lostSignal:  make(chan struct{}),
		risk:        make(chan struct{}),
		lease:       requirement.LeaseTimeout,
		ticket:      g.ticket,
		subject: Subject{
			ID:       strconv.FormatUint(rand.Uint64(), 36),
			Scope:    requirement.Scope,
			Identity: requirement.identity(),
			Mode:     requirement.Mode,
			Priority: requirement.Priority,
		},
	}
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

// remove takes h, whose work and hooks have returned, off the tenure. It returns
// the loss, if the lock was lost before, and what releases the lock, if h was
// the last on it; this waits for ZooKeeper's confirmation, within a limit.
func (t *tenure) remove(h *Hold) (lost *LostError, release func(context.Context, time.Duration) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.endLocked()
	t.holds = slices.DeleteFunc(t.holds, func(o *Hold) bool { return o == h })
	lost, cause, since := t.lost, h.cause, h.since
	if len(t.holds) > 0 {
		return lost, func(context.Context, time.Duration) error { return nil }
	}
	t.phase = leaving
	t.unfollow()
	return lost, func(ctx context.Context, limit time.Duration) error {
		return t.release(ctx, limit, cause, since, lost != nil)
	}
}

// release gives the lock away. It returns a *LostError if the lock may have
// been lost before the work and the hooks returned.
func (t *tenure) release(ctx context.Context, limit time.Duration, cause error, since time.Time, told bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	began := time.Now()
	err := t.grant.Release(ctx)

	t.mu.Lock()
	took := time.Since(began)
	held := time.Since(t.since)
	lost := t.lost // also when it was noticed meanwhile
	if errors.As(err, &lost); err != nil && lost != nil {
		err = lost
	}
	switch {
	case told:
	case err != nil && lost != nil && lost.Reason != recipes.LossSession:
		t.markLostLocked(lost)
		t.addLocked(Lost{held, lost})
	default:
		t.addLocked(Released{held, cause, err, since, took})
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

// addLocked adds a notice of what happens to the request now.
func (t *tenure) addLocked(n recipes.Notice) { t.stream.add(Event{t.aboutLocked(), n}) }

// aboutLocked is the subject of an event that happens now.
func (t *tenure) aboutLocked() Subject {
	s := t.subject
	s.At = time.Now()
	return s
}
