package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

func TestPoliciesOfAJobThatSaysNothing(t *testing.T) {
	require.Equal(t, []policyView{
		{"overlap", "a tick that comes due while a run goes on is skipped"},
		{"misfire", "of the ticks that were due while no daemon ran the newest one runs, if it is not older than 10m"},
		{"timeout", "none: an attempt may work for ever"},
		{"retry", "none: a run that fails has failed"},
		{"stuck_after", "work that goes on 10s after it was told to end is reported as stuck"},
	}, policies(jobs.Job{Schedule: "0 2 * * *"}))
}

func TestPoliciesOfAJobThatSaysAll(t *testing.T) {
	job := jobs.Job{
		Schedule: "0 2 * * *", TimeZone: "Europe/Berlin",
		Overlap:   jobs.Overlap{Policy: jobs.OverlapBufferAll, Max: 3},
		Misfire:   jobs.Misfire{Policy: jobs.MisfireAll, Window: 26 * time.Hour},
		DST:       jobs.DST{Gap: jobs.GapSkip, Overlap: jobs.FoldBoth},
		Jitter:    90 * time.Second,
		Blackouts: []jobs.Blackout{{Schedule: "0 22 24 12 *", For: 72 * time.Hour, Reason: "change freeze"}},
		Timeout:   time.Hour, Retry: jobs.Retry{Max: 2},
		OnPreempt:    jobs.OnPreempt{Then: jobs.PreemptedRequeue, MaxPreemptions: 1},
		HoldAtLeast:  time.Minute,
		Requirements: []lockguard.Requirement{{Scope: "db"}},

		PauseAfterFailures: 5, PauseFor: 30 * time.Minute,
	}
	require.Equal(t, []policyView{
		{"overlap", "a tick that comes due while a run goes on waits for its end, up to 3 do; those after them are skipped"},
		{"misfire", "of the ticks that were due while no daemon ran those of the last 1d2h run, in order, the newest 100 at most"},
		{"dst", "what is due in an hour that the clocks leave out is left out; in one that comes twice it runs both times"},
		{"jitter", "each tick starts up to 1m30s later, always the same for a tick; it stays the tick of its instant"},
		{"blackout", "no tick runs for 3d from each 0 22 24 12 * Europe/Berlin: change freeze"},
		{"timeout", "an attempt that works for 1h is cancelled; waiting for locks does not count"},
		{"retry", "a failed run is tried again up to twice, after 10s, then twice as long each time, at most 5m; without the locks meanwhile"},
		{"on_preempt", "a preempted run waits for its locks again and begins anew; after its 1st preemption no priority ends it any more"},
		{"hold_at_least", "the locks are kept for 1m at least, unless somebody preempts"},
		{"pause_after_failures", "after 5 failures in a row it is paused in the whole cluster for 30m; then one run is tried"},
		{"stuck_after", "work that goes on 10s after it was told to end is reported as stuck"},
	}, policies(job))
}

func TestClockChangesMatterOnlyToSchedulesThatNameHours(t *testing.T) {
	for spec, matter := range map[string]bool{
		"0 2 * * *":                      true,
		"@daily":                         true,
		"CRON_TZ=Africa/Cairo 5 1 * * *": true,
		"CRON_TZ=UTC 5 1 * * *":          false,
		"*/15 * * * *":                   false,
		"0 * * * *":                      false,
		"@hourly":                        false,
		"@every 2h":                      false,
	} {
		require.Equal(t, matter, namesHours(jobs.Job{Schedule: spec, TimeZone: "Europe/Berlin"}), spec)
	}
	require.False(t, namesHours(jobs.Job{Schedule: "0 2 * * *"}))
}

func TestWorkInWords(t *testing.T) {
	command := &jobs.Command{Argv: []string{"sh", "-c", "echo 'a b' > x", "--all", ""}}
	nothing := func(context.Context, jobs.Run) error { return nil }
	require.Equal(t, `sh -c 'echo '\''a b'\'' > x' --all ''`, workWords(command))
	require.Equal(t, "POST https://ana:xxxxx@orders/close?…", workWords(&jobs.HTTP{URL: "https://ana:secret@orders/close?key=secret"}))
	require.Equal(t, "a Go function", workWords(jobs.Func(nothing)))
	require.Equal(t, "/bin/true; with a cleanup", workWords(jobs.WithCleanup(&jobs.Command{Argv: []string{"/bin/true"}}, nothing)))
}
