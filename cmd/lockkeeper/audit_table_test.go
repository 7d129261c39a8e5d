package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// aNight is an emergency at noon: an override, a preemption, a takeover, an
// approval and a break.
func aNight() []opstore.AuditRecord {
	nightly := opstore.AuditParty{ID: "aaa", Owner: "nightly", Host: "h3", PID: 811, Priority: 20, Token: 7301444}
	report := opstore.AuditParty{ID: "bbb", Owner: "monthly-report", Host: "h4", PID: 99, Priority: 10, Token: 7301502}
	hotfix := opstore.AuditParty{Owner: "hotfix", Host: "h1", PID: 12, Priority: priority.Emergency}
	done := opstore.AuditDone
	entries := []opstore.AuditEntry{
		{
			Act: "A1", Action: opstore.AuditOverrideApply, Phase: opstore.AuditOutcome, Result: done, By: "ana", Override: "INC-4411", Scope: "cluster/orders",
			Reason: "payments are stuck behind the batch", After: map[string]string{"override": "boost of hotfix to emergency until 14:00", "source": "zookeeper"},
		},
		{
			Act: "A2", Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent, By: "ana", Override: "INC-4411", Scope: "cluster/orders", Job: "hotfix",
			Reason: "payments are stuck behind the batch", Requestor: &hotfix, Before: map[string]string{"priority": "90"}, After: map[string]string{"priority": "2147483647"},
		},
		{
			Act: "hold-7301444", Action: opstore.AuditPreempt, Phase: opstore.AuditOutcome, Result: done, By: "hotfix", Override: "INC-4411", Scope: "cluster/orders",
			Reason: "outranked", Requestor: &hotfix, Victims: []opstore.AuditParty{nightly}, After: map[string]string{"grace": "1m0s"},
		},
		{
			Act: "3q2x8a", Action: opstore.AuditTakeover, Phase: opstore.AuditIntent, By: "hotfix", Override: "INC-4411", Scope: "cluster/orders",
			Reason: "outranked", Requestor: &hotfix, Victims: []opstore.AuditParty{nightly},
		},
		{
			Act: "3q2x8a", Action: opstore.AuditTakeover, Phase: opstore.AuditOutcome, Result: done, By: "hotfix", Override: "INC-4411", Scope: "cluster/orders",
			Reason: "outranked", Requestor: &hotfix, Victims: []opstore.AuditParty{nightly},
		},
		{
			Act: "hold-7301444", Action: opstore.AuditLost, Phase: opstore.AuditOutcome, Result: done, By: "hotfix", Override: "INC-4411", Scope: "cluster/orders",
			Reason: "outranked", Victims: []opstore.AuditParty{nightly}, After: map[string]string{"lost": "overridden", "held": "6m12s"},
		},
		{
			Act: "A3", Action: opstore.AuditApprovalOpen, Phase: opstore.AuditOutcome, Result: done, By: "rollup", Approval: "a-0000000003", Scope: "cluster/orders/resource/users",
			Victims: []opstore.AuditParty{report},
		},
		{
			Act: "A4", Action: opstore.AuditApprovalDecide, Phase: opstore.AuditOutcome, Result: done, By: "bob", Approval: "a-0000000003", Scope: "cluster/orders/resource/users",
			Reason: "the report can run tomorrow", After: map[string]string{"decision": "approved"},
		},
		{Act: "B1", Action: opstore.AuditBreak, Phase: opstore.AuditIntent, By: "bob", Scope: "cluster/orders/resource/users", Reason: "h4 is on fire", Victims: []opstore.AuditParty{report}},
		{
			Act: "T1", Action: opstore.AuditTakeover, Phase: opstore.AuditOutcome, Result: opstore.AuditFailed, Error: "not needed: the holders have gone by themselves", By: "bob", Scope: "cluster/orders/resource/users",
			Reason: "outranked", Requestor: &hotfix, Victims: []opstore.AuditParty{report},
		},
		{
			Act: "B1", Action: opstore.AuditBreak, Phase: opstore.AuditOutcome, Result: opstore.AuditFailed, Error: "the holder has gone", By: "bob", Scope: "cluster/orders/resource/users",
			Reason: "h4 is on fire", Victims: []opstore.AuditParty{report},
		},
		{
			Act: "A6", Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent, By: "ana", Override: "INC-4412", Scope: "tenant/5/billing", Job: "importer",
			Reason: "disk is full", Requestor: &opstore.AuditParty{Owner: "importer"}, Before: map[string]string{"frozen": "false"}, After: map[string]string{"frozen": "true"},
		},
		{
			Act: "A7", Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent, By: "ana", Override: "INC-4413", Scope: "cluster/orders", Job: "hotfix",
			Reason: "late", Requestor: &hotfix, Before: map[string]string{"forceful": "false", "waiting_timeout": "unset"}, After: map[string]string{"forceful": "true", "waiting_timeout": "1m30s"},
		},
		{
			Act: "hold-7301444", Action: opstore.AuditPreempted, Phase: opstore.AuditOutcome, Result: done, By: "hotfix", Scope: "cluster/orders",
			Reason: "outranked", Requestor: &hotfix, Victims: []opstore.AuditParty{nightly}, After: map[string]string{"grace": "10s", "forceful": "false"},
		},
		{Act: "R1", Action: opstore.AuditJobRun, Phase: opstore.AuditIntent, By: "ana", Job: "backup", Reason: "INC-4411"},
		{Act: "R1", Action: opstore.AuditJobRun, Phase: opstore.AuditOutcome, Result: done, By: "ana", Job: "backup", Reason: "INC-4411", After: map[string]string{"run": "3f00000a"}},
		{Act: "R2", Action: opstore.AuditJobRun, Phase: opstore.AuditOutcome, Result: opstore.AuditFailed, Error: "no daemon has taken it", By: "ana", Job: "backup", Reason: "INC-4411"},
		{Act: "A5", Action: opstore.AuditOverrideExpire, Phase: opstore.AuditOutcome, Result: done, By: "ana", Override: "INC-4411", Reason: "payments are stuck behind the batch"},
	}
	records := make([]opstore.AuditRecord, 0, len(entries))
	for i, e := range entries {
		r := opstore.AuditRecord{Seq: int64(1041 + i), At: at(time.Duration(i) * 61 * time.Second), Host: "h1", PID: 12, AuditEntry: e}
		if e.By == "ana" || e.By == "bob" {
			r.Identity = "digest:" + e.By
		}
		records = append(records, r)
	}
	return records
}

func TestAuditTrailCanBeReadAtThreeInTheMorning(t *testing.T) {
	records := aNight()
	for name, pg := range map[string]struct {
		width int
		wide  bool
	}{"audit.80.golden": {80, false}, "audit.160.golden": {160, false}, "audit_wide.160.golden": {160, true}} {
		same(t, name, drawn(pg.width, func(p page) {
			p.wide = pg.wide
			writeAudit(p, records, at(time.Hour))
		}))
	}
}

// How a record reads changes; what is stored does not, and so its hash holds.
func TestAuditTrailIsStoredAsItWasWhateverItsWordsAre(t *testing.T) {
	for _, r := range aNight() {
		line := string(r.Line())
		writeAudit(page{new(bytes.Buffer), 80, false}, []opstore.AuditRecord{r}, at(0))
		require.Equal(t, line, string(r.Line()))
		for name, value := range r.After {
			require.Contains(t, line, fmt.Sprintf("%q:%q", name, value))
		}
	}
}

func TestAuditVerdicts(t *testing.T) {
	intact := newAuditReportView(opstore.AuditReport{Checked: 10_000, From: 1042, To: 11_041, Foreign: []string{"note"}})
	withFile := intact
	withFile.withFile("audit.jsonl", audit.FileReport{Checked: 9000, From: 1, To: 11_041, Compared: 9000, Unchained: 1, Torn: 1, Gaps: [][2]int64{{20, 31}}})
	broken := newAuditReportView(opstore.AuditReport{Checked: 6, From: 1, To: 6, Broken: &opstore.AuditBrokenError{
		Seq: 7, Fault: opstore.AuditAltered, Why: "it does not continue record 6: one of the two was replaced, together with its hash",
	}})
	brokenFile := newAuditReportView(opstore.AuditReport{})
	brokenFile.withFile("audit.jsonl", audit.FileReport{Checked: 6, From: 1, To: 6, Broken: &audit.FileBrokenError{
		Line: 9, Seq: 7, Fault: opstore.AuditAltered, Why: "ZooKeeper has another record under this number",
	}})
	require.True(t, withFile.Intact)
	require.False(t, broken.Intact)
	require.False(t, brokenFile.Intact)
	same(t, "audit_verify.80.golden", drawn(80, func(pg page) {
		for i, v := range []auditReportView{intact, withFile, broken, brokenFile} {
			if i > 0 {
				pg.line("")
			}
			writeAuditReport(pg, v)
		}
	}))
}

func TestSinceIsADurationOrATime(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2h":                   at(-2 * time.Hour),
		"11:30":                at(-30 * time.Minute),
		"12:30":                at(30*time.Minute - 24*time.Hour),
		"2026-11-20T12:00:00Z": at(-24 * time.Hour),
		"2026-11-20":           at(-36 * time.Hour),
	} {
		var v ago
		require.NoError(t, v.Set(text))
		require.Empty(t, v.problem(), text)
		require.Equal(t, want, v.from(at(0)).UTC(), text)
	}
	for text, want := range map[string]string{"-2h": "must be positive", "yesterday": "is neither a duration nor a time", "3": "is neither a duration nor a time"} {
		var v ago
		require.NoError(t, v.Set(text))
		require.Contains(t, v.problem(), want, text)
	}
	require.True(t, (&ago{}).from(at(0)).IsZero())
}
