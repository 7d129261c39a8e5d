package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// seekApprovalLocked has somebody decide about a polite request whose waiting
// timeout is over.
func (t *tenure) seekApprovalLocked(n recipes.CleanupPending) {
	if t.guard.approver == nil || t.deciding || t.phase != asking {
		return
	}
	t.deciding = true
	about := t.aboutLocked()
	t.stream.add(Event{about, ApprovalPending{n.Holders, n.Waited}})
	ctx, cancel := context.WithCancelCause(t.awaiting)
	t.unask, t.askedFor = cancel, time.Now().Add(-n.Waited)
	go t.seekApproval(ctx, t.attempt, Pending{
		Subject: about, Job: t.claim.about.Job, Labels: t.claim.about.Labels, Holders: n.Holders,
		Err: &recipes.CleanupPendingError{Scope: about.Scope, Waited: n.Waited, Holders: n.Holders},
	})
}

// seekApproval asks the Approver and does what it says, unless that is not
// needed any more.
func (t *tenure) seekApproval(ctx context.Context, attempt int, pending Pending) {
	var decision Decision
	why := protect("approver", func() (err error) {
		decision, err = t.guard.approver.Approve(ctx, pending)
		return err
	})
	t.mu.Lock()
	defer t.stream.deliver()
	defer t.mu.Unlock()
	if ctx.Err() != nil || t.phase != asking || t.attempt != attempt {
		return
	}
	t.addLocked(ApprovalDecided{decision, why})
	if why == nil {
		t.approval, t.spared = &decision, 0
		if decision.AfterGrace {
			t.spared = t.graceLeftLocked(pending.Holders)
		}
	} else {
		t.denied = join(pending.Err, why)
	}
	t.publishLocked(t.offers[len(t.offers)-1].effect)
}

// graceLeftLocked is how long the one of the holders still has that may clean up
// the longest.
func (t *tenure) graceLeftLocked(holders []recipes.Contender) time.Duration {
	left := time.Duration(0)
	for _, h := range holders {
		left = max(left, h.CleanupTimeout-time.Since(t.askedFor))
	}
	return left.Round(time.Millisecond)
}

// voidApprovalLocked: others hold the lock than those about whom somebody was
// asked. What was decided does not concern them, and what was not has not to be.
func (t *tenure) voidApprovalLocked() {
	if !t.deciding || t.phase != asking {
		return
	}
	t.unask(ErrHoldersGone)
	t.deciding, t.approval = false, nil
	t.publishLocked(t.offers[len(t.offers)-1].effect)
}

// unlessDenied returns why a request failed: what was decided, if it was that.
func (t *tenure) unlessDenied(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.denied != nil && errors.Is(err, t.denied) {
		return t.denied
	}
	return err
}
