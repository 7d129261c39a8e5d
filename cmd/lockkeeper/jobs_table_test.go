package main

import (
	"bytes"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// table returns what write writes, in columns.
func table(write func(w *tabwriter.Writer)) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush()
	return out.String()
}

// someJobStates are, at noon: one job that is idle, one that runs, one that is
// paused, and one whose daemon has died.
func someJobStates() (*config.Config, []ticks.State) {
	cfg := &config.Config{File: "lockkeeper.yaml", Jobs: []jobs.Job{
		{Name: "backup", Schedule: "0 2 * * *", TimeZone: "Europe/Berlin", Requirements: []lockguard.Requirement{{Scope: "db/orders"}, {Scope: "db/users"}}},
		{Name: "fresh", Schedule: "manual"},
		{Name: "rollup", Schedule: "@every 1h"},
	}}
	states := []ticks.State{
		{
			Job: "backup", Failures: 2, Counts: ticks.Counts{Ran: 120, Failed: 3, Skipped: map[string]int64{"overlap": 4, "lock": 10}},
			History: []ticks.Result{result(at(-35*time.Hour), ticks.Ran, ""), result(at(-11*time.Hour), ticks.Failed, "exit status 3\nstack")},
		},
		{
			Job: "compact", Waiting: []time.Time{at(-time.Minute)},
			Runs: []ticks.Run{{Instant: at(-4 * time.Minute), ID: "r7", Host: "h2", PID: 71, ClaimedAt: at(-4 * time.Minute), Alive: true}},
		},
		{
			Job: "crashed", History: []ticks.Result{result(at(-time.Hour), ticks.Ran, "")},
			Runs: []ticks.Run{{Instant: at(-time.Minute), Host: "h9", PID: 9, ClaimedAt: at(-time.Minute)}},
		},
		{
			Job: "rollup", Counts: ticks.Counts{Ran: 1},
			Paused: &ticks.Pause{By: "ana@h1", Reason: "INC-4411", At: at(-10 * time.Minute), Until: at(90 * time.Minute)},
		},
	}
	return cfg, states
}

// result is a tick that waited for a second and took two.
func result(instant time.Time, outcome ticks.Outcome, reason string) ticks.Result {
	return ticks.Result{
		Run:     ticks.Run{Instant: instant, ID: "r1", Host: "h3", PID: 811, ClaimedAt: instant},
		End:     ticks.End{Outcome: outcome, Reason: reason, Token: 77, Waited: time.Second, Took: 2 * time.Second, Attempts: 1},
		EndedAt: instant.Add(3 * time.Second), First: instant, Count: 1,
	}
}

func TestJobsAreOneLineEachWithWhatTheFileAndTheClusterKnow(t *testing.T) {
	// given
	cfg, states := someJobStates()

	// when
	views := jobViews(cfg, states, nil, nil, at(0))
	out := table(func(w *tabwriter.Writer) { writeJobs(w, views, at(0), false) })

	// then
	require.Equal(t, `
JOB      STATE                  NEXT (UTC)      IN   LAST         ENDED (UTC)  AGO     WHERE  FAILURES  SCHEDULE                 LOCKS
backup   idle                   11-22 01:00:00  13h  failed       01:00:03     10h59m  h3     2         0 2 * * * Europe/Berlin  db/orders, db/users
compact  running 4m, 1 waiting  -               -    -            -            -       -      -         -                        -
crashed  idle                   -               -    interrupted  -            -       h9     -         -                        -
fresh    idle                   -               -    -            -            -       -      -         manual                   -
rollup   paused                 14:00:00        2h   -            -            -       -      -         @every 1h                -

rollup is paused until 2026-11-21 13:30:00 UTC, 1h30m more; by ana@h1 10m ago: INC-4411
`, "\n"+out)

	// when
	out = table(func(w *tabwriter.Writer) { writeJobs(w, views[:2], at(0), true) })

	// then
	require.Contains(t, out, "RUNNING ON  RAN  FAILED  PREEMPTED  LOST  INTERRUPTED  SKIPPED\n")
	require.Contains(t, out, "-           120  3       0          0     0            14\n")
	require.Contains(t, out, "h2 pid 71   0    0       0          0     0            0\n")
}

func TestStateOfAJobInOneWord(t *testing.T) {
	run := ticks.Run{ClaimedAt: at(-time.Minute), Alive: true}
	for want, s := range map[string]ticks.State{
		"idle":               {},
		"running 1m":         {Runs: []ticks.Run{run}},
		"running 1m (2)":     {Runs: []ticks.Run{run, run}},
		"running 1m, paused": {Runs: []ticks.Run{run}, Paused: &ticks.Pause{}},
		"paused":             {Paused: &ticks.Pause{}, Waiting: []time.Time{at(0)}},
		"waiting":            {Waiting: []time.Time{at(0)}, Paused: &ticks.Pause{Until: at(0)}},
		"waiting (2)":        {Waiting: []time.Time{at(0), at(1)}},
	} {
		require.Equal(t, want, jobState(newJobView(nil, s, nil, at(0)), at(0)))
	}
}

func TestHistoryIsOneLineATickAndSkipsInARowAreOne(t *testing.T) {
	// given
	skips := ticks.Result{
		Run: ticks.Run{Instant: at(-3 * time.Hour), ID: "r2"}, End: ticks.End{Outcome: ticks.Skipped, Reason: "paused"},
		EndedAt: at(-3 * time.Hour), First: at(-30 * time.Hour), Count: 28,
	}
	manual := result(at(-2*time.Hour), ticks.Preempted, "preempted by hotfix (priority 90)\nmore of it")
	manual.Manual, manual.By, manual.Why, manual.Attempts, manual.Preemptions, manual.Trace = true, "ana@h1", "INC-4411", 2, 1, "00-ab-cd-01"
	s := ticks.State{
		Job: "backup", Failures: 1,
		Counts:  ticks.Counts{Ran: 120, Preempted: 1, Skipped: map[string]int64{"overlap": 4, "paused": 28}},
		History: []ticks.Result{result(at(-40*time.Hour), ticks.Lost, ""), result(at(-31*time.Hour), ticks.Ran, ""), skips, manual},
		Runs:    []ticks.Run{{Instant: at(-4 * time.Minute), ID: "r7", Host: "h2", PID: 71, ClaimedAt: at(-4*time.Minute + time.Second), Alive: true}},
		Waiting: []time.Time{at(-time.Minute)},
		Paused:  &ticks.Pause{By: "ana@h1", At: at(-time.Minute)},
	}

	// when
	out := table(func(w *tabwriter.Writer) { writeHistory(w, views.NewHistory(s, nil, 3, at(0)), at(0), false) })

	// then
	require.Equal(t, `
SCHEDULED (UTC)             STARTED         WAITED  TOOK   OUTCOME     WHERE  TOKEN  ATTEMPTS  REASON
11-20 05:00:00              11-20 05:00:00  1s      2s     ran         h3     77     1         -
11-20 06:00:00 to 09:00:00  -               -       -      skipped 28  -      -      -         paused
by hand                     10:00:00        1s      2s     preempted   h3     77     2         preempted by hotfix (priority 90) …; ana@h1: INC-4411
11:56:00                    11:56:01        -       3m59s  running     h2     -      -         -
11:59:00                    -               -       -      waiting     -      -      -         for the end of the run before it

paused until somebody resumes it; by ana@h1 1m ago
since its first tick: 120 ran, 1 preempted, 32 skipped (paused 28, overlap 4); the last run failed
`, "\n"+out)

	// when
	out = table(func(w *tabwriter.Writer) { writeHistory(w, views.NewHistory(s, nil, 1, at(0)), at(0), true) })

	// then
	require.Contains(t, out, "PREEMPTED  PID  RUN  TRACE\n")
	require.Contains(t, out, "1          811  r1   00-ab-cd-01\n")
	require.Contains(t, out, "-          71   r7   -\n")
}

func TestRunWithoutRetriesWasTriedOnce(t *testing.T) {
	for outcome, want := range map[ticks.Outcome]int{ticks.Ran: 1, ticks.Failed: 1, ticks.Skipped: 0, ticks.Preempted: 0} {
		kept := result(at(0), outcome, "")
		kept.Attempts = 0 // as the ledger has it
		require.Equal(t, want, views.NewTick(kept).Attempts, outcome)
	}
}

func TestTextOfJobsCannotPlayTricksOnTheTerminal(t *testing.T) {
	s := ticks.State{
		Job: "a\x1b[2J", Paused: &ticks.Pause{By: "\x1b[2J", Reason: "x\nbackup is fine"},
		History: []ticks.Result{result(at(0), ticks.Failed, "\x1b[2J")},
	}
	out := table(func(w *tabwriter.Writer) {
		writeJobs(w, []views.Job{newJobView(nil, s, nil, at(0))}, at(0), true)
		writeHistory(w, views.NewHistory(s, nil, 1, at(0)), at(0), true)
		writePauseChange(w, newPauseChange(s, s.Paused, s.Paused, at(0), ""), at(0))
	})
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\nbackup is fine")
}

func TestChangesOfPausesSayHowItWas(t *testing.T) {
	was := &ticks.Pause{By: "bob@h2", Reason: "INC-1", At: at(-time.Hour)}
	is := &ticks.Pause{By: "ana@h1", Reason: "INC-2", At: at(0), Until: at(2 * time.Hour)}
	runs := ticks.State{Job: "backup", Runs: []ticks.Run{{Host: "h2", PID: 71, ClaimedAt: at(-time.Minute), Alive: true}}}
	for name, c := range map[string]struct {
		change pauseChange
		want   string
	}{
		"paused": {newPauseChange(runs, nil, is, at(0), ""), `backup: paused until 2026-11-21 14:00:00 UTC, in 2h
  a run goes on: on h2, pid 71, since 2026-11-21 11:59:00 UTC, 1m ago
`},
		"paused again": {newPauseChange(ticks.State{Job: "backup"}, was, is, at(0), ""), `backup: paused until 2026-11-21 14:00:00 UTC, in 2h
  it was paused until somebody resumes it; by bob@h2 1h ago: INC-1
`},
		"resumed": {newPauseChange(runs, was, nil, at(0), ""), `backup: resumed
  it was paused until somebody resumes it; by bob@h2 1h ago: INC-1
`},
		"not paused":    {newPauseChange(runs, nil, nil, at(0), ""), "backup: is not paused\n"},
		"pause is over": {newPauseChange(runs, &ticks.Pause{Until: at(-1)}, nil, at(0), ""), "backup: is not paused\n"},
	} {
		require.Equal(t, c.want, table(func(w *tabwriter.Writer) { writePauseChange(w, c.change, at(0)) }), name)
	}
}
