package lockguard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A request is one call to acquire a lock, until the grant or the refusal.
//
// Notices of the layer below may come as soon as it is made, also before the
// layer below has returned the grant.
type request struct {
	guard       *Guard
	claim       claim       // as declared
	requirement Requirement // likewise
	errand      errand
	stream      *stream
	limit       limit // of the wait for the grant
	limited     bool  // its timeout is set, else it is found out

	mu      mutex
	attempt *attempt        // the present one: what an earlier one brings to light is too late
	frozen  bool            // and that was reported
	told    override.Effect // with the last Overridden
	over    bool            // it was granted, or has failed
	held    *heldLock       // what it was granted

	// Of a grant that the layer below has not returned yet.
	asked error                   // the first *PreemptedError, *LeaseExpiredError or *OverriddenError
	asks  []lock.PreemptRequested // all of them
	risk  risk
	lost  *LostError
}

// newRequest makes a request and tells of it.
func newRequest(ctx context.Context, g *Guard, requirement Requirement) *request {
	requirement.Class = cmp.Or(requirement.Class, g.classes.of(requirement.Scope))
	r := &request{
		guard:       g,
		claim:       g.claim(requirement),
		requirement: requirement,
		limit:       limit{start: time.Now()},
		risk:        risk{signal: make(chan struct{})},
		stream: &stream{guard: g, ctx: context.WithoutCancel(ctx), about: Subject{
			ID:       strconv.FormatUint(rand.Uint64(), 36),
			Scope:    requirement.Scope,
			Identity: requirement.identity(),
			Mode:     requirement.Mode,
			Priority: requirement.Priority,
		}},
	}
	about := r.stream.now()
	r.stream.add(Event{about, Waiting{since(r.stream.ctx, about.At)}})
	r.stream.deliver()
	trace := g.trace(r.stream.ctx, r.stream.subject())
	r.stream.change(func(about *Subject) { about.Trace = trace })
	return r
}

// WaitingSince returns a context for requests of work that has wanted its lock
// since then already: an attempt that was made before has given up its turn to
// run, or its queue was elsewhere. Waiting tells it.
func WaitingSince(ctx context.Context, then time.Time) context.Context {
	return context.WithValue(ctx, sinceKey{}, then)
}

type sinceKey struct{}

func since(ctx context.Context, now time.Time) time.Time {
	if then, ok := ctx.Value(sinceKey{}).(time.Time); ok && then.Before(now) {
		return then
	}
	return now
}

// begin acquires the lock and returns the first Hold, which derives from caller.
// When it returns an error the lock is not held, or is being given away.
func (r *request) begin(ctx, caller context.Context, hooks []Hook) (*Hold, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // and nothing is on record
		}
		effect, changed := r.weigh(ctx)
		if effect.Frozen != nil && r.errand.yields() && !r.limit.isTry() {
			r.tellFrozen(*effect.Frozen)
			return nil, &FrozenError{Scope: r.claim.about.Scope, Override: *effect.Frozen}
		}
		effect, changed, err := r.endure(ctx, effect, changed)
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case effect.Bypass != nil:
			return r.pass(caller, *effect.Bypass, hooks), nil
		}
		hold, err := r.try(ctx, caller, effect, changed, hooks)
		if !errors.Is(err, errWithdrawn) {
			return hold, err
		}
	}
}

// weigh returns what becomes of the request now. The acquire timeout is what it
// is at the first time.
func (r *request) weigh(ctx context.Context) (override.Effect, <-chan struct{}) {
	if limit := r.patience(); limit != nil && *limit > 0 { // not longer for the audit either
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *limit)
		defer cancel()
	}
	effect, changed := r.claim.weigh(ctx)
	if !r.limited {
		r.limit.timeout, r.limited = effect.Terms.AcquireTimeout, true
	}
	return effect, changed
}

// patience is left, or what was asked for as long as that is not known.
func (r *request) patience() *time.Duration {
	if r.limited {
		return r.left()
	}
	return r.claim.asked.AcquireTimeout
}

// left is how long the request may still wait.
func (r *request) left() *time.Duration {
	if r.guard.overrides == nil {
		return r.limit.timeout
	}
	return r.limit.left()
}

// receive returns the first Hold on a grant, which open makes of it.
func (r *request) receive(
	ctx context.Context, g grant, open func(token Token, since time.Time) (*Hold, error),
) (*Hold, error) {
	since := time.Now()
	token, err := g.Token(ctx)
	var hold *Hold
	if err == nil {
		hold, err = open(token, since)
	}
	if err != nil {
		giveBack(ctx, g)
		return nil, err
	}
	r.stream.deliver()
	return hold, nil
}

// giveBack releases a grant under which nothing was begun.
func giveBack(ctx context.Context, g grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	_ = g.Release(ctx) // tried on in the background
}

// heldSince is the lock that g has granted.
func (r *request) heldSince(since time.Time, g grant) *heldLock {
	return &heldLock{
		guard:       r.guard,
		claim:       r.claim,
		early:       r.errand.early(),
		stream:      r.stream,
		grant:       g,
		since:       since,
		unfollow:    func() {},
		lostSignal:  make(chan struct{}),
		requirement: r.requirement,
		lease:       lease{length: r.requirement.LeaseTimeout, end: since.Add(r.requirement.LeaseTimeout)},
		risk:        r.risk,
	}
}

// openLocked makes the first Hold.
func (r *request) openLocked(caller context.Context, l *heldLock, hooks []Hook, opened lock.Notice) *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.held, r.over = l, true
	l.stream.note(opened)
	l.first = l.addHoldLocked(caller, l.requirement, hooks)
	return l.first
}

// refused tells that the request failed, and says why.
func (r *request) refused(ctx context.Context, err error) error {
	r.mu.Lock()
	r.over = true
	switch {
	case r.lost != nil:
		err = r.lost // it explains whatever else failed
	case r.asked == nil || !errors.Is(err, r.asked):
		err = notAcquired(ctx, r.requirement.Scope, err)
	}
	r.stream.note(NotAcquired{time.Since(r.limit.start), err})
	r.mu.Unlock()
	r.stream.deliver()
	r.stream.flush(ctx)
	return err
}

// isGone reports whether a request failed because the lock was granted, and had
// to be given away or was lost at once.
func (r *request) isGone(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.As(err, new(*LostError)) || r.asked != nil && errors.Is(err, r.asked)
}
