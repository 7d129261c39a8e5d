package lockguard

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// notice is called by the layer below with what happens to a request, and then to the
// lock that it was granted. It must not block.
func (r *request) notice(a *attempt, n lock.Notice) {
	r.mu.Lock()
	current, held := r.attempt == a, r.held
	if current {
		r.noticeLocked(n)
	}
	r.mu.Unlock()
	if current && held != nil {
		held.notice(n)
	}
	r.stream.deliverSoon()
}

func (r *request) noticeLocked(notice lock.Notice) {
	if r.held == nil && (r.over || r.lost != nil) || r.held != nil && r.held.isOver() {
		return // it comes too late to change anything
	}
	switch n := notice.(type) {
	case lock.Queued, lock.Blocked, lock.Delayed, lock.Displaced, lock.Requeued, lock.TakenOver:
		r.stream.note(n)
	case lock.Joined:
		if ticket := r.guard.ticket; ticket != nil {
			about := r.stream.subject()
			ticket.at(Reference{Scope: about.Scope, Hold: about.Hold, ID: n.ID, Mode: about.Mode})
		}
	case lock.Revised:
		r.attempt.revisedLocked(n.Revision)
	case lock.CleanupPending:
		r.attempt.seekApprovalLocked(n)
	case lock.PendingOver:
		r.attempt.voidApprovalLocked()
	case lock.PreemptSent:
		r.attempt.askedLocked(n)
		r.stream.note(n)
	}
	if r.held == nil {
		r.noticeOfGrantLocked(notice)
	}
}

// noticeOfGrantLocked remembers what happens to a grant on which no Hold is open.
func (r *request) noticeOfGrantLocked(notice lock.Notice) {
	switch n := notice.(type) {
	case lock.Lost:
		r.lost = n.Err
	case lock.PreemptRequested:
		if r.asked == nil {
			r.asked = causeOf(n, r.requirement.Scope, r.requirement.LeaseTimeout)
		}
		r.asks = append(r.asks, n)
	case lock.AtRisk:
		r.risk.mark(n.Deadline)
	}
}

// notice is what happens to the lock.
func (l *heldLock) notice(notice lock.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost, ok := notice.(lock.Lost); ok {
		l.loseLocked(lost.Err)
		return
	}
	if l.over || l.lost != nil {
		return // it comes too late to change anything
	}
	switch n := notice.(type) {
	case lock.PreemptRequested:
		l.askLocked(n)
	case lock.PreemptionWithdrawn, lock.RiskOver:
		l.stream.note(n)
	case lock.AtRisk:
		l.risk.mark(n.Deadline)
		l.stream.note(n)
	}
}

// askLocked interrupts the work. The first request is the cause, also when it
// is withdrawn; later ones can only shorten the grace.
func (l *heldLock) askLocked(n lock.PreemptRequested) {
	if l.asked == nil {
		l.asked = causeOf(n, l.requirement.Scope, l.lease.length)
	}
	for _, h := range l.holds {
		h.askLocked(l.asked, n.Deadline, n.Grace)
	}
	l.stream.note(n)
}

// causeOf is the cause with which preempted work is interrupted.
func causeOf(n lock.PreemptRequested, scope string, lease time.Duration) error {
	if n.Override != nil {
		return &OverriddenError{
			Scope: scope, Override: *n.Override,
			Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
		}
	}
	if n.Reason == priority.LeaseExpired {
		return &LeaseExpiredError{
			Scope: scope, By: n.By.Owner, Priority: n.By.Priority,
			Lease: lease, Grace: n.Grace, Deadline: n.Deadline,
		}
	}
	return &PreemptedError{
		Scope: scope, By: n.By.Owner, Priority: n.By.Priority,
		Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
	}
}

// loseLocked interrupts work and hooks. A loss that is noticed when both have
// returned is left to release.
func (l *heldLock) loseLocked(lost *LostError) {
	if l.markLostLocked(lost) && !l.over {
		l.stream.note(Lost{time.Since(l.since), lost})
	}
}

func (l *heldLock) markLostLocked(lost *LostError) (first bool) {
	if l.lost != nil {
		return false
	}
	l.lost = lost
	for _, h := range l.holds {
		h.loseLocked(lost)
	}
	close(l.lostSignal) // the contexts have ended before it is closed
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
