package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// newDaemon knows the job backup, as a daemon does.
func newDaemon(t *testing.T, f *fortress) *ticks.Ledger {
	t.Helper()
	daemon := f.client.TickLedger("daemon")
	_, err := daemon.Begin(t.Context(), "backup", time.Now())
	require.NoError(t, err)
	return daemon
}

// requireAct checks that an act is on record: that it is about to be done, and then
// what has come of it, by ana with her credentials.
func requireAct(t *testing.T, records []opstore.AuditRecord, action opstore.AuditAction, reason string) (outcome opstore.AuditRecord) {
	t.Helper()
	require.Len(t, records, 2)
	for i, phase := range []opstore.AuditPhase{opstore.AuditIntent, opstore.AuditOutcome} {
		r := records[i]
		require.Equal(t, phase, r.Phase)
		require.Equal(t, action, r.Action)
		require.Equal(t, "backup", r.Job)
		require.Equal(t, "ana", r.By)
		require.Equal(t, "digest:ana", r.Identity)
		require.Equal(t, reason, r.Reason)
		require.Equal(t, records[0].Act, r.Act)
	}
	return records[1]
}

func TestNothingIsDoneToAJobThatIsNotOnRecord(t *testing.T) {
	f := newFortress(t, time.Minute)
	daemon := newDaemon(t, f)
	_, err := daemon.Pause(t.Context(), "backup", ticks.Pause{By: "ben", Reason: "INC-1"})
	require.NoError(t, err)
	log, err := f.client.AuditLog(0)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), opstore.AuditEntry{Action: opstore.AuditBreak, Phase: opstore.AuditOutcome, By: "ana"})
	require.NoError(t, err)
	require.NoError(t, f.zk.Set("/lockkeeper/audit", []byte("nonsense")))
	for _, command := range []string{"pause", "resume", "run"} {
		code, out, errs := f.lockkeeper(t, "jobs", command, "backup", "--reason", "gone")
		require.NotZero(t, code, command)
		require.Empty(t, out)
		require.Contains(t, errs, `audit trail: job.`+command+` of job "backup" not put on record`)
	}
	state, err := daemon.State(t.Context(), "backup")
	require.NoError(t, err)
	require.Equal(t, "ben", state.Paused.By, "neither paused anew nor resumed")
	standing, err := daemon.AwaitRequests(t.Context(), ticks.Requests{Standing: []ticks.Request{{ID: "none"}}})
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(standing.Standing, func(r ticks.Request) bool { return r.Job == "backup" }), "no request for a run is left")
}
