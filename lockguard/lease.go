package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// extend starts a new lease.
func (t *tenure) extend(ctx context.Context, lease time.Duration) error {
	if t.bypass != nil {
		return nil // there is none
	}
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
	if t.phase == holding && t.lost == nil { // else it comes too late
		t.lease = lease
		t.leaseEnd = sent.Add(lease)
		t.addLocked(Extended{lease})
	}
	t.mu.Unlock()
	t.stream.deliver()
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
