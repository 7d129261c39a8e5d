package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// announce tells that a request is made, once.
func (l *heldLock) announce() {
	if l.announced {
		return
	}
	l.announced = true
	about := l.stream.now()
	l.stream.add(Event{about, Waiting{since(l.stream.ctx, about.At)}})
	l.stream.deliver()
	trace := l.guard.trace(l.stream.ctx, l.stream.subject())
	l.stream.change(func(about *Subject) { about.Trace = trace })
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
func (l *heldLock) begin(ctx, caller context.Context, hooks []Hook) (*Hold, error) {
	l.announce()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // and nothing is on record
		}
		effect, changed := l.weigh(ctx)
		if effect.Frozen != nil && l.yields && !l.isTry() {
			l.tellFrozen(*effect.Frozen)
			return nil, &FrozenError{Scope: l.claim.about.Scope, Override: *effect.Frozen}
		}
		effect, changed, err := l.endure(ctx, effect, changed)
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case effect.Bypass != nil:
			return l.pass(caller, *effect.Bypass, hooks), nil
		}
		hold, err := l.try(ctx, caller, effect, changed, hooks)
		if !errors.Is(err, errWithdrawn) {
			return hold, err
		}
	}
}

// weigh returns what becomes of the request now. The acquire timeout is what it
// is at the first time.
func (l *heldLock) weigh(ctx context.Context) (override.Effect, <-chan struct{}) {
	effect, changed := override.Effect{Terms: l.claim.asked}, (<-chan struct{})(nil)
	if l.mark == nil {
		if limit := l.patience(); limit != nil && *limit > 0 { // not longer for the audit either
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *limit)
			defer cancel()
		}
		effect, changed = l.claim.weigh(ctx)
	}
	if !l.limited {
		l.timeout, l.limited = effect.Terms.AcquireTimeout, true
	}
	return effect, changed
}

// patience is left, or what was asked for as long as that is not known.
func (l *heldLock) patience() *time.Duration {
	if l.limited {
		return l.left()
	}
	return l.claim.asked.AcquireTimeout
}

func (l *heldLock) isTry() bool { return l.timeout != nil && *l.timeout == 0 }

// left is how long the request may still wait.
func (l *heldLock) left() *time.Duration {
	if l.timeout == nil || l.isTry() || l.guard.overrides == nil {
		return l.timeout
	}
	return new(max(*l.timeout-time.Since(l.started), time.Nanosecond)) // 0 would be a try
}

// try makes the request. The error is, or wraps, errWithdrawn when it was to be
// thought over.
func (l *heldLock) try(ctx, caller context.Context, effect override.Effect, changed <-chan struct{}, hooks []Hook) (hold *Hold, err error) {
	following, unfollow := context.WithCancel(l.stream.ctx)
	awaiting, decided := context.WithCancelCause(following)
	defer func() {
		if err == nil {
			decided(ErrHoldersGone)
		}
		decided(err)
	}()

	l.mu.Lock()
	l.attempt++
	l.awaiting, l.granted, l.unfollow = awaiting, make(chan struct{}), unfollow
	l.asks = nil
	l.thawLocked()
	l.beginLocked(effect)
	request := l.requestLocked()
	granted := l.granted
	l.mu.Unlock()
	l.stream.deliver()
	if changed != nil {
		go l.follow(following, changed, granted)
	}

	hold, err = l.acquire(ctx, caller, request, hooks)
	if err != nil {
		unfollow()
	}
	return hold, err
}

// requestLocked is the request that is made with the present terms.
func (l *heldLock) requestLocked() recipes.Request {
	attempt := l.attempt
	request := l.requirement.request(l.stream.subject().Trace, func(n recipes.Notice) { l.notice(attempt, n) })
	request.Terms, request.Override, request.Under = l.made.terms.Terms, l.made.terms.Override, l.under
	request.AcquireTimeout = l.left()
	if l.mark == nil {
		request.Patient = l.guard.approver != nil
		if l.guard.overrides != nil || request.Patient {
			request.Revise = l.terms
		}
	}
	if l.guard.overrides != nil {
		request.Vouch = l.guard.vouch
	}
	if l.guard.auditor != nil {
		request.Authorize = l.authorize
	}
	return request
}

// acquire waits for the grant and opens the first Hold on it.
func (l *heldLock) acquire(ctx, caller context.Context, request recipes.Request, hooks []Hook) (*Hold, error) {
	g, err := l.guard.locker.acquire(ctx, l.claim.about.Scope, request)
	if err != nil {
		return nil, l.unlessDenied(err)
	}
	since := time.Now()
	token, err := g.Token(ctx)
	var hold *Hold
	if err == nil {
		hold, err = l.open(ctx, caller, g, token, since, hooks)
	}
	if err != nil {
		giveBack(ctx, g)
		return nil, err
	}
	l.stream.deliver()
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
func (l *heldLock) open(ctx, caller context.Context, g grant, token Token, since time.Time, hooks []Hook) (*Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return nil, l.lost
	case l.asked != nil:
		return nil, l.asked
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case l.mark == nil && l.claim.frozen() != nil:
		l.attempt++ // nobody cares what becomes of the grant
		return nil, errWithdrawn
	}
	l.grant = g
	l.stream.change(func(about *Subject) { about.Token = token })
	l.grantedLocked()
	return l.openLocked(caller, since, hooks, Acquired{since.Sub(l.started)}), nil
}

// openLocked makes the first Hold.
func (l *heldLock) openLocked(caller context.Context, since time.Time, hooks []Hook, opened recipes.Notice) *Hold {
	l.phase = holding
	l.since = since
	l.leaseEnd = since.Add(l.lease)
	l.stream.note(opened)
	l.first = l.addHoldLocked(caller, l.requirement, hooks)
	if l.granted != nil {
		close(l.granted)
	}
	return l.first
}

// refused tells that the request failed, and says why.
func (l *heldLock) refused(ctx context.Context, err error) error {
	l.mu.Lock()
	l.phase = leaving
	l.unfollow()
	switch {
	case l.lost != nil:
		err = l.lost // it explains whatever else failed
	case l.asked == nil || !errors.Is(err, l.asked):
		err = notAcquired(ctx, l.requirement.Scope, err)
	}
	l.stream.note(NotAcquired{time.Since(l.started), err})
	l.mu.Unlock()
	l.stream.deliver()
	l.flush(ctx)
	return err
}

// isGone reports whether a request failed because the lock was granted, and had
// to be given away or was lost at once.
func (l *heldLock) isGone(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.As(err, new(*LostError)) || l.asked != nil && errors.Is(err, l.asked)
}
