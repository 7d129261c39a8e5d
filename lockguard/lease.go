package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// extend starts a new lease.
func (l *heldLock) extend(ctx context.Context, lease time.Duration) error {
	if l.bypass != nil {
		return nil // there is none
	}
	if lease <= l.requirement.CleanupTimeout {
		return &RequestError{
			Field:  "lease_timeout",
			Reason: "extending to " + lease.String() + " leaves no time beside cleanup_timeout (" + l.requirement.CleanupTimeout.String() + "); ask for a longer lease",
		}
	}
	if err := l.standing(); err != nil {
		return err
	}
	sent := time.Now()
	if err := l.grant.Extend(ctx, lease); err != nil {
		return l.refusal(err)
	}
	l.mu.Lock()
	if l.phase == holding && l.lost == nil { // else it comes too late
		l.lease = lease
		l.leaseEnd = sent.Add(lease)
		l.addLocked(Extended{lease})
	}
	l.mu.Unlock()
	l.stream.deliver()
	return nil
}

// refusal is what a holder is told whose lease was not extended.
func (l *heldLock) refusal(err error) error {
	if why := l.standing(); why != nil {
		return why
	}
	if pending := (*recipes.PreemptPendingError)(nil); errors.As(err, &pending) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.cause(pending.By) // the notice has not come yet
	}
	if lost := (*LostError)(nil); errors.As(err, &lost) { // nor this one
		l.mu.Lock()
		l.loseLocked(lost)
		l.unlock()
		l.stream.deliver()
	}
	return err
}
