package lockguard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// askedLocked remembers why a holder was asked to go, for the audit trail.
func (l *heldLock) askedLocked(n recipes.PreemptSent) {
	if l.guard.auditor == nil {
		return
	}
	if l.asks == nil {
		l.asks = make(map[string]priority.Reason)
	}
	l.asks[n.Holder.ID] = n.Reason
}

// authorize puts on record that holders are about to be evicted. See
// recipes.Request.Authorize.
func (l *heldLock) authorize(ctx context.Context, holders []recipes.Contender) error {
	l.mu.Lock()
	about := l.stream.subject()
	entry := recipes.AuditEntry{
		Act:    about.ID,
		Action: recipes.AuditTakeover, Phase: recipes.AuditIntent,
		Scope: about.Scope, Job: l.claim.about.Job, By: about.Owner, Reason: l.whyLocked(holders),
		Requestor: &recipes.AuditParty{Owner: about.Owner, Host: l.guard.host, PID: l.guard.pid, Priority: about.Priority},
	}
	if m := l.made.terms.Override; m != nil {
		entry.Override = m.ID
	}
	if l.approval != nil {
		entry.Approval = l.approval.ID
	}
	l.mu.Unlock()
	for _, h := range holders {
		entry.Victims = append(entry.Victims, h.Party())
	}
	if err := l.guard.audit(ctx, entry); err != nil {
		return fmt.Errorf("lock %q not taken over: that could not be put on record, and is not done without: %w", entry.Scope, err)
	}
	return nil
}

// whyLocked is by what right holders are evicted.
func (l *heldLock) whyLocked(holders []recipes.Contender) string {
	var reasons []string
	for _, h := range holders {
		reason, known := l.asks[h.ID]
		if !known {
			reason = priority.Outranked
			if h.LeaseLeft <= 0 {
				reason = priority.LeaseExpired
			}
		}
		if !slices.Contains(reasons, string(reason)) {
			reasons = append(reasons, string(reason))
		}
	}
	return strings.Join(reasons, ", ")
}
