package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// seekApprovalLocked has somebody decide about a polite request whose waiting
// timeout is over.
func (l *heldLock) seekApprovalLocked(n recipes.CleanupPending) {
	if l.guard.approver == nil || l.deciding || l.phase != asking {
		return
	}
	l.deciding = true
	about := l.stream.now()
	l.stream.add(Event{about, ApprovalPending{n.Holders, n.Waited}})
	ctx, cancel := context.WithCancelCause(l.awaiting)
	l.unask, l.askedFor = cancel, time.Now().Add(-n.Waited)
	go l.seekApproval(ctx, l.attempt, Pending{
		Subject: about, Job: l.claim.about.Job, Labels: l.claim.about.Labels, Holders: n.Holders,
		Err: &recipes.CleanupPendingError{Scope: about.Scope, Waited: n.Waited, Holders: n.Holders},
	})
}

// seekApproval asks the Approver and does what it says, unless that is not
// needed any more.
func (l *heldLock) seekApproval(ctx context.Context, attempt int, pending Pending) {
	var decision Decision
	why := protect("approver", func() (err error) {
		decision, err = l.guard.approver.Approve(ctx, pending)
		return err
	})
	l.mu.Lock()
	defer l.stream.deliver()
	defer l.mu.Unlock()
	if ctx.Err() != nil || l.phase != asking || l.attempt != attempt {
		return
	}
	l.stream.note(ApprovalDecided{decision, why})
	if why == nil {
		l.approval, l.spared = &decision, 0
		if decision.AfterGrace {
			l.spared = l.graceLeftLocked(pending.Holders)
		}
	} else {
		l.denied = join(pending.Err, why)
	}
	l.publishLocked(l.offers[len(l.offers)-1].effect)
}

// graceLeftLocked is how long the one of the holders still has that may clean up
// the longest.
func (l *heldLock) graceLeftLocked(holders []recipes.Contender) time.Duration {
	left := time.Duration(0)
	for _, h := range holders {
		left = max(left, h.CleanupTimeout-time.Since(l.askedFor))
	}
	return left.Round(time.Millisecond)
}

// voidApprovalLocked: others hold the lock than those about whom somebody was
// asked. What was decided does not concern them, and what was not has not to be.
func (l *heldLock) voidApprovalLocked() {
	if !l.deciding || l.phase != asking {
		return
	}
	l.unask(ErrHoldersGone)
	l.deciding, l.approval = false, nil
	l.publishLocked(l.offers[len(l.offers)-1].effect)
}

// unlessDenied returns why a request failed: what was decided, if it was that.
func (l *heldLock) unlessDenied(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.denied != nil && errors.Is(err, l.denied) {
		return l.denied
	}
	return err
}
