package audit

import (
	"crypto/rand"
	"slices"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// announcements are what was announced and has no outcome yet, the oldest first.
type announcements []opstore.AuditEntry

// maxAnnounced is how many are remembered. There are as many as requests that
// are about to take a lock by force; those of others are taken back by others.
const maxAnnounced = 1024

// note remembers what is announced, until its outcome.
func (a *Auditor) note(entry opstore.AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.announced = slices.DeleteFunc(a.announced, func(o opstore.AuditEntry) bool {
		return o.Act == entry.Act && o.Action == entry.Action
	})
	if entry.Phase != opstore.AuditIntent {
		return
	}
	if len(a.announced) == maxAnnounced {
		a.announced = slices.Delete(a.announced, 0, 1)
	}
	a.announced = append(a.announced, entry)
}

func (a *Auditor) forget(act string) { a.take(act) }

// take returns what was announced of an act, and forgets it.
func (a *Auditor) take(act string, of ...opstore.AuditAction) (taken []opstore.AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.announced = slices.DeleteFunc(a.announced, func(o opstore.AuditEntry) bool {
		if o.Act != act || len(of) > 0 && !slices.Contains(of, o.Action) {
			return false
		}
		taken = append(taken, o)
		return true
	})
	return taken
}

// announcedOverride is the override for which an act was announced, if one was.
func (a *Auditor) announcedOverride(act string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.announced {
		if o.Act == act && o.Override != "" {
			return o.Override
		}
	}
	return a.overrides[act]
}

// outcome is that of something that was announced.
func outcome(announced opstore.AuditEntry, err error) opstore.AuditEntry {
	announced.Phase, announced.Result = opstore.AuditOutcome, opstore.AuditDone
	if err != nil {
		announced.Result, announced.Error = opstore.AuditFailed, err.Error()
	}
	return announced
}

func newAct() string { return rand.Text() }
