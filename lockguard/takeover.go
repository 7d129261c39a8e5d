package lockguard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// askedLocked remembers why a holder was preempted, for the audit trail.
func (a *attempt) askedLocked(n lock.PreemptSent) {
	if a.request.guard.auditor == nil {
		return
	}
	if a.asks == nil {
		a.asks = make(map[string]priority.Reason)
	}
	a.asks[n.Holder.ID] = n.Reason
}

// authorize puts on record that holders are about to be evicted. See
// lock.Request.Authorize.
func (a *attempt) authorize(ctx context.Context, holders []lock.Contender) error {
	r := a.request
	r.mu.Lock()
	about := r.stream.subject()
	entry := opstore.AuditEntry{
		Act:    about.ID,
		Action: opstore.AuditTakeover, Phase: opstore.AuditIntent,
		Scope: about.Scope, Job: r.claim.about.Job, By: about.Owner, Reason: a.whyLocked(holders),
		Requestor: &opstore.AuditParty{Owner: about.Owner, Host: r.guard.host, PID: r.guard.pid, Priority: about.Priority},
	}
	if m := a.made.terms.Override; m != nil {
		entry.Override = m.ID
	}
	if a.approval != nil {
		entry.Approval = a.approval.ID
	}
	r.mu.Unlock()
	for _, h := range holders {
		entry.Victims = append(entry.Victims, h.Party())
	}
	if err := r.guard.audit(ctx, entry); err != nil {
		return fmt.Errorf("lock %q not taken over: that could not be put on record, and is not done without: %w",
			entry.Scope, err)
	}
	return nil
}

// whyLocked is by what right holders are evicted.
func (a *attempt) whyLocked(holders []lock.Contender) string {
	var reasons []string
	for _, h := range holders {
		reason, known := a.asks[h.ID]
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
