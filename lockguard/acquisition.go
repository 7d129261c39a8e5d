package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// announce tells that a request is made, once.
func (t *tenure) announce() {
	if t.announced {
		return
	}
	t.announced = true
	about := t.aboutLocked() // nobody else knows t yet
	t.stream.add(Event{about, Waiting{since(t.stream.ctx, about.At)}})
	t.stream.deliver()
	t.subject.Trace = t.guard.trace(t.stream.ctx, t.subject)
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
func (t *tenure) begin(ctx, caller context.Context, hooks []Hook) (*Hold, error) {
	t.announce()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // and nothing is on record
		}
		effect, changed := t.weigh(ctx)
		if effect.Frozen != nil && t.yields && !t.isTry() {
			t.tellFrozen(*effect.Frozen)
			return nil, &FrozenError{Scope: t.claim.about.Scope, Override: *effect.Frozen}
		}
		effect, changed, err := t.endure(ctx, effect, changed)
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case effect.Bypass != nil:
			return t.pass(caller, *effect.Bypass, hooks), nil
		}
		hold, err := t.try(ctx, caller, effect, changed, hooks)
		if !errors.Is(err, errWithdrawn) {
			return hold, err
		}
	}
}

// weigh returns what becomes of the request now. The acquire timeout is what it
// is at the first time.
func (t *tenure) weigh(ctx context.Context) (override.Effect, <-chan struct{}) {
	effect, changed := override.Effect{Terms: t.claim.asked}, (<-chan struct{})(nil)
	if t.mark == nil {
		if limit := t.patience(); limit != nil && *limit > 0 { // not longer for the audit either
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *limit)
			defer cancel()
		}
		effect, changed = t.claim.weigh(ctx)
	}
	if !t.limited {
		t.timeout, t.limited = effect.Terms.AcquireTimeout, true
	}
	return effect, changed
}

// patience is left, or what was asked for as long as that is not known.
func (t *tenure) patience() *time.Duration {
	if t.limited {
		return t.left()
	}
	return t.claim.asked.AcquireTimeout
}

func (t *tenure) isTry() bool { return t.timeout != nil && *t.timeout == 0 }

// left is how long the request may still wait.
func (t *tenure) left() *time.Duration {
	if t.timeout == nil || t.isTry() || t.guard.overrides == nil {
		return t.timeout
	}
	return new(max(*t.timeout-time.Since(t.started), time.Nanosecond)) // 0 would be a try
}

// try makes the request. The error is, or wraps, errWithdrawn when it was to be
// thought over.
func (t *tenure) try(ctx, caller context.Context, effect override.Effect, changed <-chan struct{}, hooks []Hook) (hold *Hold, err error) {
	following, unfollow := context.WithCancel(t.stream.ctx)
	awaiting, decided := context.WithCancelCause(following)
	defer func() {
		if err == nil {
			decided(ErrHoldersGone)
		}
		decided(err)
	}()

	t.mu.Lock()
	t.attempt++
	t.awaiting, t.granted, t.unfollow = awaiting, make(chan struct{}), unfollow
	t.asks = nil
	t.thawLocked()
	t.beginLocked(effect)
	request := t.requestLocked()
	granted := t.granted
	t.mu.Unlock()
	t.stream.deliver()
	if changed != nil {
		go t.follow(following, changed, granted)
	}

	hold, err = t.acquire(ctx, caller, request, hooks)
	if err != nil {
		unfollow()
	}
	return hold, err
}

// requestLocked is the request that is made with the present terms.
func (t *tenure) requestLocked() recipes.Request {
	attempt := t.attempt
	request := t.requirement.request(t.subject.Trace, func(n recipes.Notice) { t.notice(attempt, n) })
	request.Terms, request.Override, request.Under = t.made.terms.Terms, t.made.terms.Override, t.under
	request.AcquireTimeout = t.left()
	if t.mark == nil {
		request.Patient = t.guard.approver != nil
		if t.guard.overrides != nil || request.Patient {
			request.Revise = t.terms
		}
	}
	if t.guard.overrides != nil {
		request.Vouch = t.guard.vouch
	}
	if t.guard.auditor != nil {
		request.Authorize = t.authorize
	}
	return request
}

// acquire waits for the grant and opens the first Hold on it.
func (t *tenure) acquire(ctx, caller context.Context, request recipes.Request, hooks []Hook) (*Hold, error) {
	g, err := t.guard.locker.acquire(ctx, t.claim.about.Scope, request)
	if err != nil {
		return nil, t.unlessDenied(err)
	}
	since := time.Now()
	token, err := g.Token(ctx)
	var hold *Hold
	if err == nil {
		hold, err = t.open(ctx, caller, g, token, since, hooks)
	}
	if err != nil {
		giveBack(ctx, g)
		return nil, err
	}
	t.stream.deliver()
	return hold, nil
}

// giveBack releases a grant under which nothing was begun.
func giveBack(ctx context.Context, g grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	_ = g.Release(ctx) // tried on in the background
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
	case t.mark == nil && t.claim.frozen() != nil:
		t.attempt++ // nobody cares what becomes of the grant
		return nil, errWithdrawn
	}
	t.grant = g
	t.subject.Token = token
	t.grantedLocked()
	return t.openLocked(caller, since, hooks, Acquired{since.Sub(t.started)}), nil
}

// openLocked makes the first Hold.
func (t *tenure) openLocked(caller context.Context, since time.Time, hooks []Hook, opened recipes.Notice) *Hold {
	t.phase = holding
	t.since = since
	t.leaseEnd = since.Add(t.lease)
	t.addLocked(opened)
	t.first = t.addHoldLocked(caller, t.requirement, hooks)
	if t.granted != nil {
		close(t.granted)
	}
	return t.first
}

// refused tells that the request failed, and says why.
func (t *tenure) refused(ctx context.Context, err error) error {
	t.mu.Lock()
	t.phase = leaving
	t.unfollow()
	switch {
	case t.lost != nil:
		err = t.lost // it explains whatever else failed
	case t.asked == nil || !errors.Is(err, t.asked):
		err = notAcquired(ctx, t.requirement.Scope, err)
	}
	t.addLocked(NotAcquired{time.Since(t.started), err})
	t.mu.Unlock()
	t.stream.deliver()
	t.flush(ctx)
	return err
}

// isGone reports whether a request failed because the lock was granted, and had
// to be given away or was lost at once.
func (t *tenure) isGone(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.As(err, new(*LostError)) || t.asked != nil && errors.Is(err, t.asked)
}
