package main

import (
	"context"
	"encoding/json"
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

// takeNext takes the next request to run a job by hand.
func takeNext(ctx context.Context, daemon *ticks.Ledger) (ticks.Claim, error) {
	var all ticks.Requests
	for len(all.Standing) == 0 {
		var err error
		if all, err = daemon.AwaitRequests(ctx, all); err != nil {
			return ticks.Claim{}, err
		}
	}
	return daemon.ClaimRequest(ctx, all.Standing[0], 1)
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

func TestWhatIsDoneToAJobIsOnRecordByTheNameOfTheCredentials(t *testing.T) {
	f := newFortress(t, time.Minute)
	daemon := newDaemon(t, f)

	// when
	code, out, errs := f.lockkeeper(t, "jobs", "pause", "backup", "--reason", "disk is full", "--until", "2126-01-01", "-o", "json")

	// then
	require.Zero(t, code, errs)
	records := f.records(t)
	outcome := requireAct(t, records, opstore.AuditJobPause, "disk is full")
	require.Equal(t, opstore.AuditDone, outcome.Result)
	require.Equal(t, map[string]string{"until": "2126-01-01T00:00:00Z"}, outcome.After)
	var changes []pauseChange
	require.NoError(t, json.Unmarshal([]byte(out), &changes))
	require.Equal(t, outcome.Act, changes[0].Act)
	require.Equal(t, "ana", changes[0].Paused.By)

	// when
	code, _, errs = f.lockkeeper(t, "jobs", "resume", "backup")

	// then
	require.Zero(t, code, errs)
	outcome = requireAct(t, f.records(t)[len(records):], opstore.AuditJobResume, "resumed by hand")
	require.Equal(t, map[string]string{"paused": "ana: disk is full"}, outcome.Before)

	// when
	taken := make(chan ticks.Claim, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		claim, _ := takeNext(ctx, daemon)
		taken <- claim
	}()
	code, _, errs = f.lockkeeper(t, "jobs", "run", "backup", "--reason", "before the migration")

	// then
	require.Zero(t, code, errs)
	claim := <-taken
	outcome = requireAct(t, f.records(t)[len(records)+2:], opstore.AuditJobRun, "before the migration")
	require.Equal(t, opstore.AuditDone, outcome.Result)
	require.Equal(t, "ana", claim.Run.By)
	require.Equal(t, map[string]string{"run": claim.Run.ID}, outcome.After)
}

func TestARequestThatNoDaemonTakesIsOnRecordAsFailed(t *testing.T) {
	f := newFortress(t, time.Minute)
	newDaemon(t, f)

	// when
	code, _, _ := f.lockkeeper(t, "jobs", "run", "backup", "--reason", "now", "--within", "50ms")

	// then
	require.Equal(t, exitNotAcquired, code)
	outcome := requireAct(t, f.records(t), opstore.AuditJobRun, "now")
	require.Equal(t, opstore.AuditFailed, outcome.Result)
	require.Contains(t, outcome.Error, "no daemon has taken the request within 50ms")
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
