package lockguard

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// notice is told by the layer below what happens. It must not block.
func (l *heldLock) notice(attempt int, notice recipes.Notice) {
	l.mu.Lock()
	if l.attempt == attempt {
		l.noticeLocked(notice)
	}
	l.mu.Unlock()
	l.stream.deliverSoon()
}

func (l *heldLock) noticeLocked(notice recipes.Notice) {
	if lost, ok := notice.(recipes.Lost); ok {
		l.loseLocked(lost.Err)
		return
	}
	if l.phase == leaving || l.lost != nil {
		return // it comes too late to change anything
	}
	switch n := notice.(type) {
	case recipes.Queued, recipes.Blocked, recipes.Delayed, recipes.Displaced, recipes.Requeued, recipes.TakenOver:
		l.stream.note(n)
	case recipes.Joined:
		if l.ticket != nil {
			about := l.stream.subject()
			l.ticket.at(Reference{Scope: about.Scope, Hold: about.Hold, ID: n.ID, Mode: about.Mode})
		}
	case recipes.Revised:
		l.revisedLocked(n.Revision)
	case recipes.CleanupPending:
		l.seekApprovalLocked(n)
	case recipes.PendingOver:
		l.voidApprovalLocked()
	case recipes.PreemptSent:
		l.askedLocked(n)
		l.stream.note(n)
	case recipes.PreemptRequested:
		l.askLocked(n)
	case recipes.PreemptionWithdrawn:
		if l.phase == holding {
			l.stream.note(n)
		}
	case recipes.AtRisk:
		l.markRiskLocked(n.Deadline)
		if l.phase == holding {
			l.stream.note(n)
		}
	case recipes.RiskOver:
		if l.phase == holding {
			l.stream.note(n)
		}
	}
}

// askLocked interrupts the work. The first request is the cause, also when it
// is withdrawn; later ones can only shorten the grace.
func (l *heldLock) askLocked(n recipes.PreemptRequested) {
	if l.asked == nil {
		l.asked = l.cause(n)
	}
	for _, h := range l.holds {
		h.askLocked(l.asked, n.Deadline, n.Grace)
	}
	if l.accedes && l.phase == asking {
		l.askedBefore = append(l.askedBefore, n)
	}
	if l.phase == holding {
		l.stream.note(n)
	}
}

func (l *heldLock) cause(n recipes.PreemptRequested) error {
	if n.Override != nil {
		return &OverriddenError{
			Scope: l.requirement.Scope, Override: *n.Override,
			Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
		}
	}
	if n.Reason == priority.LeaseExpired {
		return &LeaseExpiredError{
			Scope: l.requirement.Scope, By: n.By.Owner, Priority: n.By.Priority,
			Lease: l.lease, Grace: n.Grace, Deadline: n.Deadline,
		}
	}
	return &PreemptedError{
		Scope: l.requirement.Scope, By: n.By.Owner, Priority: n.By.Priority,
		Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
	}
}

// loseLocked interrupts work and hooks. A loss that is noticed when both have
// returned is left to release.
func (l *heldLock) loseLocked(lost *LostError) {
	if !l.markLostLocked(lost) {
		return
	}
	if l.phase == holding {
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
	close(l.lostSignal) // whoever sees it finds the contexts ended
	return true
}

func (l *heldLock) markRiskLocked(deadline time.Time) {
	l.riskEnd = deadline
	if !isClosed(l.risk) {
		close(l.risk)
	}
}

// atRisk returns what is closed in a silence. The deadline moves on with the
// answer that ends it.
func (l *heldLock) atRisk() <-chan struct{} {
	const sameDeadline = time.Millisecond // computed at another moment
	now := l.grant.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.risk) && now.Sub(l.riskEnd) > sameDeadline {
		l.risk = make(chan struct{})
	}
	return l.risk
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
