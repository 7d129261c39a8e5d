package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A lease bounds how long a lock is held once another request wants it.
type lease struct {
	length    time.Duration
	end       time.Time     // local clock
	prolonged time.Duration // from the grant on, that overrides have seen to
}

func (l *lease) renew(length time.Duration, end time.Time) { l.length, l.end = length, end }

// missing is how long a new lease has to be, to last until then; 0: this one does,
// or it is too late. It is longer than the cleanup.
func (l *lease) missing(until time.Time, cleanup time.Duration) time.Duration {
	left := time.Until(until).Truncate(time.Millisecond) + time.Millisecond
	if until.Before(l.end) || left <= 0 {
		return 0
	}
	return max(left, cleanup+time.Millisecond)
}

func (l *heldLock) leaseLength() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease.length
}

// extend starts a new lease.
func (l *heldLock) extend(ctx context.Context, length time.Duration) error {
	if l.bypass() != nil {
		return nil // there is none
	}
	if length <= l.requirement.CleanupTimeout {
		return &RequestError{
			Field: "lease_timeout",
			Reason: "extending to " + length.String() + " leaves no time beside cleanup_timeout (" +
				l.requirement.CleanupTimeout.String() + "); ask for a longer lease",
		}
	}
	if err := l.standing(); err != nil {
		return err
	}
	sent := time.Now()
	if err := l.grant.Extend(ctx, length); err != nil {
		return l.refusal(err)
	}
	l.mu.Lock()
	if !l.over && l.lost == nil { // else it comes too late
		l.lease.renew(length, sent.Add(length))
		l.stream.note(Extended{length})
	}
	l.mu.Unlock()
	l.stream.deliver()
	return nil
}

// refusal is the error for a holder whose lease was not extended.
func (l *heldLock) refusal(err error) error {
	if why := l.standing(); why != nil {
		return why
	}
	if pending := (*lock.PreemptPendingError)(nil); errors.As(err, &pending) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return causeOf(pending.By, l.requirement.Scope, l.lease.length) // the notice has not come yet
	}
	if lost := (*LostError)(nil); errors.As(err, &lost) { // nor this one
		l.mu.Lock()
		l.loseLocked(lost)
		l.mu.Unlock()
		l.stream.deliver()
	}
	return err
}

// protect starts the minimum runtime, if it has not begun with the grant.
func (l *heldLock) protect(ctx context.Context) error {
	if !l.early || l.requirement.MinRuntime == 0 {
		return nil
	}
	if err := l.standing(); err != nil {
		return err
	}
	if err := l.grant.Protect(ctx, l.requirement.MinRuntime); err != nil {
		return l.refusal(err)
	}
	return nil
}

// reconsider does what overrides do to a holder: a freeze gives back what is
// held while other locks are waited for, an extension lengthens the lease.
func (l *heldLock) reconsider(ctx context.Context, set override.Set) {
	if by := set.Apply(l.claim.about, l.claim.asked).Frozen; by != nil {
		l.mu.Lock()
		b := l.first.memberOf
		l.mu.Unlock()
		if b != nil {
			_, _ = b.giveUp(&FrozenError{Scope: l.claim.about.Scope, Override: *by})
		}
	}
	var longer override.Set
	for _, o := range set {
		if o.Kind == override.Extend && o.LeaseTimeout != nil {
			longer = append(longer, leaseAlone(o))
		}
	}
	l.mu.Lock()
	prolonged := l.lease.prolonged
	l.mu.Unlock()
	if longer.Apply(l.claim.about, l.claim.asked).Terms.LeaseTimeout <= prolonged || l.standing() != nil {
		return // told again with the next change, should somebody who asks have gone by then
	}
	total := l.claim.settle(ctx, longer, holdActs).Terms.LeaseTimeout
	if total <= prolonged {
		return
	}
	if err := l.prolong(ctx, total); err != nil && ctx.Err() == nil && !priority.CauseOf(err).Kind.EndsHold() &&
		l.standing() == nil {
		l.guard.logger.WarnContext(ctx,
			"the lease of a holder is not extended as an override wants it; tried again with the next change of the overrides",
			"scope", l.claim.about.Scope, "owner", l.claim.owner, "error", err)
	}
}

// leaseAlone is what an extension is for a holder.
func leaseAlone(o override.Override) override.Override {
	o.WaitingTimeout, o.AcquireTimeout, o.CleanupTimeout = nil, nil, nil
	return o
}

// prolong makes the lease at least total, counted from the grant.
func (l *heldLock) prolong(ctx context.Context, total time.Duration) error {
	l.mu.Lock()
	left := l.lease.missing(l.since.Add(total), l.requirement.CleanupTimeout)
	l.mu.Unlock()
	sent := time.Now()
	if left > 0 {
		if err := l.grant.Extend(ctx, left); err != nil {
			return l.refusal(err)
		}
	}
	l.mu.Lock()
	l.lease.prolonged = total
	if left > 0 && !l.over && l.lost == nil {
		l.lease.renew(total, sent.Add(left))
		l.stream.note(Extended{left})
	}
	l.mu.Unlock()
	l.stream.deliver()
	return nil
}
