package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// seekApprovalLocked asks for a decision about a polite request whose waiting
// timeout is over.
func (a *attempt) seekApprovalLocked(n lock.CleanupPending) {
	r := a.request
	if r.guard.approver == nil || a.deciding || r.over {
		return
	}
	a.deciding = true
	about := r.stream.now()
	r.stream.add(Event{about, ApprovalPending{n.Holders, n.Waited}})
	ctx, cancel := context.WithCancelCause(a.awaiting)
	a.unask, a.askedFor = cancel, time.Now().Add(-n.Waited)
	go a.seekApproval(ctx, Pending{
		Subject: about, Job: r.claim.about.Job, Labels: r.claim.about.Labels, Holders: n.Holders,
		Err: &lock.CleanupPendingError{Scope: about.Scope, Waited: n.Waited, Holders: n.Holders},
	})
}

// seekApproval asks the Approver and does what it says, unless that is not
// needed any more.
func (a *attempt) seekApproval(ctx context.Context, pending Pending) {
	r := a.request
	var decision Decision
	why := protect("approver", func() (err error) {
		decision, err = r.guard.approver.Approve(ctx, pending)
		return err
	})
	r.mu.Lock()
	defer r.stream.deliver()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.over || r.attempt != a {
		return
	}
	r.stream.note(ApprovalDecided{decision, why})
	if why == nil {
		a.approval, a.spared = &decision, 0
		if decision.AfterGrace {
			a.spared = a.graceLeftLocked(pending.Holders)
		}
	} else {
		a.denied = join(pending.Err, why)
	}
	a.publishLocked(a.offers[len(a.offers)-1].effect)
}

// graceLeftLocked is how long the one of the holders still has that may clean up
// the longest.
func (a *attempt) graceLeftLocked(holders []lock.Contender) time.Duration {
	left := time.Duration(0)
	for _, h := range holders {
		left = max(left, h.CleanupTimeout-time.Since(a.askedFor))
	}
	return left.Round(time.Millisecond)
}

// voidApprovalLocked: others hold the lock than those about whom somebody was
// asked. What was decided does not concern them, and what was not has not to be.
func (a *attempt) voidApprovalLocked() {
	if !a.deciding || a.request.over {
		return
	}
	a.unask(ErrHoldersGone)
	a.deciding, a.approval = false, nil
	a.publishLocked(a.offers[len(a.offers)-1].effect)
}

// unlessDenied returns why a request failed: what was decided, if it was that.
func (a *attempt) unlessDenied(err error) error {
	a.request.mu.Lock()
	defer a.request.mu.Unlock()
	if a.denied != nil && errors.Is(err, a.denied) {
		return a.denied
	}
	return err
}
