package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// observeTimeout is how long an event waits for its record. Then the record is
// written in the background.
const observeTimeout = 2 * time.Second

var errHadGone = errors.New("not needed: the holders have gone by themselves")

// Observe is the lockguard.Observer that puts outcomes on record: see
// Auditor. It returns when they are, and after 2s at the latest;
// then they are written in the background, in their order.
func (a *Auditor) Observe(ctx context.Context, event lockguard.Event) {
	entries := a.entries(event)
	if len(entries) == 0 {
		return
	}
	limit := time.NewTimer(observeTimeout)
	defer limit.Stop()
	for _, entry := range entries {
		select {
		case <-a.spool.put(entry):
		case <-limit.C:
			limit.Reset(0)
		case <-ctx.Done():
			limit.Reset(0)
		}
	}
}

// entries are what is to be put on record of an event.
func (a *Auditor) entries(event lockguard.Event) []opstore.AuditEntry {
	switch e := event.Notice.(type) {
	case lockguard.Overridden:
		a.overridden(event.ID, e)
	case lock.PreemptSent:
		return []opstore.AuditEntry{a.preempt(event.Subject, e)}
	case lock.PreemptRequested:
		return []opstore.AuditEntry{preempted(event.Subject, e)}
	case lock.TakenOver:
		return []opstore.AuditEntry{a.takeover(event.Subject, e)}
	case lockguard.Acquired:
		return a.settle(event.Subject, errHadGone, nil)
	case lockguard.NotAcquired:
		a.end(event.Subject)
		why := cmp.Or(e.Err, errors.New("not acquired"))
		return a.settle(event.Subject, why, why)
	case lockguard.Released:
		a.end(event.Subject)
	case lockguard.Lost:
		a.end(event.Subject)
		if entry, ok := lost(event.Subject, e); ok {
			return []opstore.AuditEntry{entry}
		}
	}
	return nil
}

// overridden remembers for which override a request acts from now on.
func (a *Auditor) overridden(id string, e lockguard.Overridden) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if by := e.Effect.By(); by != nil {
		a.overrides[id] = by.ID
	} else {
		delete(a.overrides, id)
	}
}

func (a *Auditor) preempt(about lockguard.Subject, e lock.PreemptSent) opstore.AuditEntry {
	return opstore.AuditEntry{
		Act: aboutHold(e.Holder.Token), Action: opstore.AuditPreempt, Phase: opstore.AuditOutcome, Result: opstore.AuditDone,
		Scope: about.Scope, By: about.Owner, Reason: string(e.Reason), Override: a.announcedOverride(about.ID),
		Requestor: party(about), Victims: []opstore.AuditParty{e.Holder.Party()},
		After: map[string]string{"grace": e.Grace.String()},
	}
}

func preempted(about lockguard.Subject, e lock.PreemptRequested) opstore.AuditEntry {
	entry := opstore.AuditEntry{
		Act: aboutHold(about.Token), Action: opstore.AuditPreempted, Phase: opstore.AuditOutcome, Result: opstore.AuditDone,
		Scope: about.Scope, By: e.By.Owner, Reason: string(e.Reason),
		Requestor: new(e.By.Party()), Victims: []opstore.AuditParty{*party(about)},
		After: map[string]string{"grace": e.Grace.String(), "forceful": fmt.Sprint(e.Forceful)},
	}
	if e.Override != nil {
		entry.Override = e.Override.ID
	}
	return entry
}

// takeover is the outcome of the announcement, if there was one.
func (a *Auditor) takeover(about lockguard.Subject, e lock.TakenOver) opstore.AuditEntry {
	entry := opstore.AuditEntry{
		Act: about.ID, Action: opstore.AuditTakeover, Phase: opstore.AuditOutcome, Result: opstore.AuditDone,
		Scope: about.Scope, By: about.Owner, Override: a.announcedOverride(about.ID),
	}
	for _, announced := range a.take(about.ID, opstore.AuditTakeover) {
		entry = outcome(announced, nil)
	}
	entry.Requestor, entry.Victims = party(about), nil
	for _, holder := range e.From {
		entry.Victims = append(entry.Victims, holder.Party())
	}
	return entry
}

// settle is what became of what a request has announced, now that it has its lock
// or has failed: of a takeover that was not told as done, and of an override
// that takes a lock.
func (a *Auditor) settle(about lockguard.Subject, takeover, act error) (entries []opstore.AuditEntry) {
	for _, announced := range a.take(about.ID) {
		switch announced.Action {
		case opstore.AuditTakeover:
			entries = append(entries, outcome(announced, takeover))
		case opstore.AuditOverrideAct:
			entry := outcome(announced, act)
			entry.Requestor = party(about) // with its token
			entries = append(entries, entry)
		default:
		}
	}
	return entries
}

// end forgets a request.
func (a *Auditor) end(about lockguard.Subject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.overrides, about.ID)
}

// lost is about a hold that somebody has ended.
func lost(about lockguard.Subject, e lockguard.Lost) (entry opstore.AuditEntry, ok bool) {
	entry = opstore.AuditEntry{
		Act: aboutHold(about.Token), Action: opstore.AuditLost, Phase: opstore.AuditOutcome, Result: opstore.AuditDone,
		Scope: about.Scope, Victims: []opstore.AuditParty{*party(about)},
		After: map[string]string{"lost": string(e.Err.Reason), "held": e.Held.Round(time.Millisecond).String()},
	}
	switch e.Err.Reason {
	case lock.LossTaken, lock.LossOverridden:
		entry.By, entry.Reason = cmp.Or(e.Err.By, "somebody else"), string(cmp.Or(e.Err.For, priority.Outranked))
	case lock.LossBroken:
		entry.By, entry.Reason = cmp.Or(e.Err.By, "an operator"), e.Err.Why
	case lock.LossDeleted:
		entry.By, entry.Reason = "somebody by hand", "the holder's node was deleted in ZooKeeper"
		if e.Err.Err != nil {
			entry.Reason = e.Err.Err.Error()
		}
	case lock.LossSession, lock.LossSuperseded:
		return entry, false
	}
	if e.Err.Override != nil {
		entry.Override = e.Err.Override.ID
	}
	return entry, true
}

// aboutHold names what is done about one hold. "" before its token is known.
func aboutHold(token lock.Token) string {
	if token == 0 {
		return ""
	}
	return "hold-" + token.String()
}

// party is a request of this process.
func party(about lockguard.Subject) *opstore.AuditParty {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &opstore.AuditParty{
		Owner: about.Owner, Host: host, PID: os.Getpid(), Priority: about.Priority, Token: about.Token,
	}
}
