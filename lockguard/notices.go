package lockguard

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// notice is told by the layer below what happens. It must not block.
func (t *tenure) notice(attempt int, notice recipes.Notice) {
	t.mu.Lock()
	if t.attempt == attempt {
		t.noticeLocked(notice)
	}
	t.unlock()
	t.stream.deliverSoon()
}

func (t *tenure) noticeLocked(notice recipes.Notice) {
	if lost, ok := notice.(recipes.Lost); ok {
		t.loseLocked(lost.Err)
		return
	}
	if t.phase == leaving || t.lost != nil {
		return // it comes too late to change anything
	}
	switch n := notice.(type) {
	case recipes.Queued, recipes.Blocked, recipes.Delayed, recipes.Displaced, recipes.Requeued, recipes.TakenOver:
		t.addLocked(n)
	case recipes.Joined:
		if t.ticket != nil {
			t.ticket.at(Reference{Scope: t.subject.Scope, Hold: t.subject.Hold, ID: n.ID, Mode: t.subject.Mode})
		}
	case recipes.Revised:
		t.revisedLocked(n.Revision)
	case recipes.CleanupPending:
		t.seekApprovalLocked(n)
	case recipes.PendingOver:
		t.voidApprovalLocked()
	case recipes.PreemptSent:
		t.askedLocked(n)
		t.addLocked(n)
	case recipes.PreemptRequested:
		t.askLocked(n)
	case recipes.PreemptionWithdrawn:
		if t.phase == holding {
			t.addLocked(n)
		}
	case recipes.AtRisk:
		t.markRiskLocked(n.Deadline)
		if t.phase == holding {
			t.addLocked(n)
		}
	case recipes.RiskOver:
		if t.phase == holding {
			t.addLocked(n)
		}
	}
}

// askLocked interrupts the work. The first request is the cause, also when it
// is withdrawn; later ones can only shorten the grace.
func (t *tenure) askLocked(n recipes.PreemptRequested) {
	if t.asked == nil {
		t.asked = t.cause(n)
	}
	for _, h := range t.holds {
		h.askLocked(t.asked, n.Deadline, n.Grace)
	}
	if t.accedes && t.phase == asking {
		t.askedBefore = append(t.askedBefore, n)
	}
	if t.phase == holding {
		t.addLocked(n)
	}
}

func (t *tenure) cause(n recipes.PreemptRequested) error {
	if n.Override != nil {
		return &OverriddenError{
			Scope: t.requirement.Scope, Override: *n.Override,
			Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
		}
	}
	if n.Reason == priority.LeaseExpired {
		return &LeaseExpiredError{
			Scope: t.requirement.Scope, By: n.By.Owner, Priority: n.By.Priority,
			Lease: t.lease, Grace: n.Grace, Deadline: n.Deadline,
		}
	}
	return &PreemptedError{
		Scope: t.requirement.Scope, By: n.By.Owner, Priority: n.By.Priority,
		Grace: n.Grace, Deadline: n.Deadline, Forceful: n.Forceful,
	}
}

// loseLocked interrupts work and hooks. A loss that is noticed when both have
// returned is left to release.
func (t *tenure) loseLocked(lost *LostError) {
	if !t.markLostLocked(lost) {
		return
	}
	if t.phase == holding {
		t.addLocked(Lost{time.Since(t.since), lost})
	}
}

func (t *tenure) markLostLocked(lost *LostError) (first bool) {
	if t.lost != nil {
		return false
	}
	t.lost = lost
	for _, h := range t.holds {
		h.loseLocked(lost)
	}
	close(t.lostSignal) // whoever sees it finds the contexts ended
	return true
}

func (t *tenure) markRiskLocked(deadline time.Time) {
	t.riskEnd = deadline
	if !isClosed(t.risk) {
		close(t.risk)
	}
}

// atRisk returns what is closed in a silence. The deadline moves on with the
// answer that ends it.
func (t *tenure) atRisk() <-chan struct{} {
	const sameDeadline = time.Millisecond // computed at another moment
	now := t.grant.Deadline()
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(t.risk) && now.Sub(t.riskEnd) > sameDeadline {
		t.risk = make(chan struct{})
	}
	return t.risk
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
