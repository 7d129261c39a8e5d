package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A hold is one grant of a scope.
type hold struct {
	scope string
	token lock.Token
}

// A story is what the trail alone tells.
type story struct {
	evicted   map[hold]string // why, in words
	announced map[hold]bool   // evictions whose outcome is not on record
	asked     map[hold][]opstore.AuditRecord
	applied   map[string]bool // overrides
	acted     map[string]bool // likewise
}

// replay reads the trail from its beginning. It needs nothing else.
func replay(records []opstore.AuditRecord) (story, []string) {
	s := story{
		evicted: map[hold]string{}, announced: map[hold]bool{}, asked: map[hold][]opstore.AuditRecord{},
		applied: map[string]bool{}, acted: map[string]bool{},
	}
	var odd []string
	complain := func(r opstore.AuditRecord, what string) {
		odd = append(odd, fmt.Sprintf("%d %s %s of %s: %s", r.Seq, r.Action, r.Phase, r.Act, what))
	}
	open := map[string]opstore.AuditRecord{} // announcements by act
	for _, r := range records {
		if r.By == "" {
			complain(r, "it has no actor")
		}
		switch r.Action {
		case opstore.AuditPreempt, opstore.AuditPreempted:
			if len(r.Victims) != 1 || r.Requestor == nil || r.Reason == "" {
				complain(r, "who, whom or why is missing")
				continue
			}
			h := hold{r.Scope, r.Victims[0].Token}
			s.asked[h] = append(s.asked[h], r)
			if r.Override != "" && !s.acted[r.Override] {
				complain(r, "override "+r.Override+" has acted before it was announced")
			}
		case opstore.AuditTakeover, opstore.AuditBreak:
			if len(r.Victims) == 0 && r.Result != opstore.AuditFailed {
				complain(r, "no holder is evicted")
			}
			if _, wrong := explain(r); wrong != "" {
				complain(r, wrong)
			}
			before, announced := open[r.Act]
			switch {
			case r.Phase == opstore.AuditIntent:
				open[r.Act] = r
				for _, v := range r.Victims {
					s.announced[hold{r.Scope, v.Token}] = true
				}
				continue
			case !announced:
				complain(r, "was not announced")
				continue
			}
			why, _ := explain(before)
			for _, v := range before.Victims {
				delete(s.announced, hold{r.Scope, v.Token})
			}
			if r.Result == opstore.AuditDone {
				for _, v := range r.Victims {
					s.evicted[hold{r.Scope, v.Token}] = why
				}
			}
		case opstore.AuditOverrideApply:
			s.applied[r.Override] = true
		case opstore.AuditOverrideAct:
			if !s.applied[r.Override] {
				complain(r, "override "+r.Override+" acts before it was applied")
			}
			s.acted[r.Override] = true
		case opstore.AuditJobPause, opstore.AuditJobResume, opstore.AuditJobRewind, opstore.AuditJobRun, opstore.AuditLost, opstore.AuditOverrideClear, opstore.AuditOverrideExpire,
			opstore.AuditApprovalOpen, opstore.AuditApprovalEscalate, opstore.AuditApprovalDecide:
		}
	}
	return s, odd
}

// explain says in words why somebody may be evicted, or what is wrong with it.
func explain(r opstore.AuditRecord) (why, wrong string) {
	switch {
	case r.Action == opstore.AuditBreak:
		if r.Identity == "" || r.Reason == "" {
			return "", "who broke it, or why, is missing"
		}
		return fmt.Sprintf("broken by %s (%s): %s", r.By, r.Identity, r.Reason), ""
	case r.Phase == opstore.AuditOutcome:
		return "", ""
	case r.Requestor == nil:
		return "", "the requestor is missing"
	}
	for _, v := range r.Victims {
		if !strings.Contains(r.Reason, string(priority.LeaseExpired)) && !r.Requestor.Priority.Outranks(v.Priority) {
			return "", fmt.Sprintf("%s (%d) does not outrank %s (%d)", r.Requestor.Owner, r.Requestor.Priority, v.Owner, v.Priority)
		}
	}
	return fmt.Sprintf("taken by %s (%d) for %s %s", r.By, r.Requestor.Priority, r.Reason, r.Override), ""
}

// check compares what the trail tells with what has happened.
func (w *world) check() {
	t := w.T
	records, _, err := w.trail.Read(t.Context(), opstore.AuditQuery{})
	require.NoError(t, err)
	report, err := w.trail.Verify(t.Context())
	require.NoError(t, err)
	require.Nil(t, report.Broken)
	require.Nil(t, report.Untrusted)
	require.Equal(t, len(records), report.Checked)
	for _, r := range records {
		w.History.Add("trail", "%d %s %s %s by %s: %s %s %v -> %v %s %s", r.Seq, r.Action, r.Phase, r.Act, r.By, r.Reason, r.Override, r.Requestor, r.Victims, r.Result, r.Error)
	}
	s, odd := replay(records)
	require.Empty(t, odd, "the trail contradicts itself")

	for _, e := range w.tap.evictions {
		require.True(t, e.announced, "contender %s was about to be evicted, and that was not on record", e.guid)
	}
	known := func(h hold) bool { _, done := s.evicted[h]; return done || s.announced[h] }
	met := map[hold]bool{}
	for _, b := range w.broken {
		met[hold{b.scope, b.token}] = true
		require.Contains(t, s.evicted, hold{b.scope, b.token}, "a lock was broken")
	}
	for _, f := range w.facts {
		h := hold{f.scope, f.token}
		switch e := f.event.Notice.(type) {
		case lockguard.Lost:
			switch e.Err.Reason {
			case lock.LossTaken, lock.LossOverridden, lock.LossBroken:
				met[h] = true
				require.True(t, known(h), "%s was evicted from %v (%s by %s), and the trail does not tell why", f.event.Owner, h, e.Err.Reason, e.Err.By)
			case lock.LossDeleted:
				t.Fatalf("%s has lost %v, and no record says by whom", f.event.Owner, h)
			case lock.LossSession, lock.LossSuperseded:
			}
		case lock.TakenOver:
			met[h] = true
			if f.daemon.counts(f.at) {
				require.Contains(t, s.evicted, h, "%s has evicted the holder of %v", f.event.Owner, h)
			}
			require.True(t, known(h), "%s has evicted the holder of %v", f.event.Owner, h)
		case lock.PreemptRequested:
			if !f.daemon.counts(f.at) {
				continue
			}
			i := slices.IndexFunc(s.asked[h], func(r opstore.AuditRecord) bool { return r.Requestor.ID == e.By.ID && r.Reason == string(e.Reason) })
			require.GreaterOrEqual(t, i, 0, "%s was asked to leave %v by %s (%s), and the trail does not tell", f.event.Owner, h, e.By.Owner, e.Reason)
			if e.Override != nil {
				require.True(t, s.acted[e.Override.ID], "override %s has preempted the holder of %v, and the trail does not tell", e.Override.ID, h)
			}
		case lock.PreemptSent:
			if f.daemon.counts(f.at) {
				require.NotEmpty(t, s.asked[h], "%s has preempted the holder of %v, and the trail does not tell", f.event.Owner, h)
			}
		}
	}
	for h, why := range s.evicted {
		require.True(t, met[h], "the trail tells of an eviction from %v that no holder has met: %s", h, why)
	}
	w.tally(s)
}

// tally counts what the schedules have brought about.
func (w *world) tally(s story) {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.evicted += len(s.evicted)
	seen.asked += len(s.asked)
	seen.uncertain += len(s.announced)
	seen.broken += len(w.broken)
	for _, f := range w.facts {
		if _, bypassed := f.event.Notice.(lockguard.Bypassed); bypassed {
			seen.bypassed++
		}
	}
	for _, why := range s.evicted {
		if strings.Contains(why, "op-") {
			seen.overridden++
		}
	}
}
