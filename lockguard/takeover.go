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
func (t *tenure) askedLocked(n recipes.PreemptSent) {
	if t.guard.auditor == nil {
		return
	}
	if t.asks == nil {
		t.asks = make(map[string]priority.Reason)
	}
	t.asks[n.Holder.ID] = n.Reason
}

// authorize puts on record that holders are about to be evicted. See
// recipes.Request.Authorize.
func (t *tenure) authorize(ctx context.Context, holders []recipes.Contender) error {
	t.mu.Lock()
	entry := recipes.AuditEntry{
		Act:    t.subject.ID,
		Action: recipes.AuditTakeover, Phase: recipes.AuditIntent,
		Scope: t.subject.Scope, Job: t.claim.about.Job, By: t.subject.Owner, Reason: t.whyLocked(holders),
		Requestor: &recipes.AuditParty{Owner: t.subject.Owner, Host: t.guard.host, PID: t.guard.pid, Priority: t.subject.Priority},
	}
	if m := t.made.terms.Override; m != nil {
		entry.Override = m.ID
	}
	if t.approval != nil {
		entry.Approval = t.approval.ID
	}
	t.mu.Unlock()
	for _, h := range holders {
		entry.Victims = append(entry.Victims, h.Party())
	}
	if err := t.guard.audit(ctx, entry); err != nil {
		return fmt.Errorf("lock %q not taken over: that could not be put on record, and is not done without: %w", entry.Scope, err)
	}
	return nil
}

// whyLocked is by what right holders are evicted.
func (t *tenure) whyLocked(holders []recipes.Contender) string {
	var reasons []string
	for _, h := range holders {
		reason, known := t.asks[h.ID]
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
