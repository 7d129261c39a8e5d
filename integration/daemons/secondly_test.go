package daemons

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func jobName(i int) string { return fmt.Sprintf("job-%03d", i) }

// secondly is so many jobs that are due every second. One in five needs a lock of its own, one in fifty one that it
// shares with the others.
func secondly(n int, daemon string, tell func(mark)) (all []jobs.Job) {
	for i := range n {
		job := jobs.Job{
			Name:     jobName(i),
			Schedule: "* * * * * *",
			Work: jobs.Func(func(_ context.Context, run jobs.Run) error {
				tell(mark{At: time.Now(), Daemon: daemon, Job: run.Job, Instant: run.Scheduled, What: began})
				return nil
			}),
		}
		switch {
		case i%50 == 0:
			job.Requirements = []lockguard.Requirement{{Scope: "jobs/shared"}}
		case i%5 == 0:
			job.Requirements = []lockguard.Requirement{{Scope: "jobs/" + job.Name}}
		}
		all = append(all, job)
	}
	return all
}

// A tally is when ticks have begun, by the clock of the test's machine.
type tally struct {
	begun            map[string]map[time.Time]int // how often, by job and instant
	runs             int
	twice, early     []string
	earliest, latest time.Duration // how late they were; negative: early
}

func tallyOf(marks []mark) tally {
	t := tally{begun: map[string]map[time.Time]int{}}
	for _, m := range marks {
		if m.What != began {
			continue
		}
		if t.begun[m.Job] == nil {
			t.begun[m.Job] = map[time.Time]int{}
		}
		instant := m.Instant.UTC()
		if t.begun[m.Job][instant]++; t.begun[m.Job][instant] > 1 {
			t.twice = append(t.twice, m.String())
		}
		t.runs++
		late := m.At.Sub(m.Instant)
		if late < -clockBound {
			t.early = append(t.early, m.String())
		}
		t.earliest, t.latest = min(t.earliest, late), max(t.latest, late)
	}
	return t
}

// balance compares what the ledger has of a job's ticks with what has happened: each instant has one outcome, and what
// is recorded as run has run. It returns how many instants there are.
func (t tally) balance(tb testing.TB, state ticks.State) (instants int64) {
	tb.Helper()
	name, counts := state.Job, state.Counts
	instants = int64(state.Last.Sub(state.Begins)/time.Second) + 1
	decided := counts.Total() + int64(len(state.Runs)+len(state.Waiting))
	require.Equal(tb, instants, decided, "%s: from %s to %s: %+v", name, state.Begins, state.Last, counts)
	runs := int64(len(t.begun[name]))
	cut := counts.Interrupted + counts.Lost + counts.Preempted + int64(len(state.Runs))
	require.LessOrEqual(tb, counts.Ran, runs, "%s: %+v", name, counts)
	require.GreaterOrEqual(tb, counts.Ran+cut, runs, "%s: %+v", name, counts)
	require.Zero(tb, counts.Failed, name)
	for _, entry := range state.History {
		switch entry.Outcome {
		case ticks.Ran:
			require.Equal(tb, 1, t.begun[name][entry.Instant.UTC()], "%s at %s", name, entry.Instant)
		case ticks.Skipped:
			require.Zero(tb, t.begun[name][entry.Instant.UTC()], "%s at %s", name, entry.Instant)
			require.NotEmpty(tb, entry.Reason)
		case ticks.Failed, ticks.Interrupted, ticks.Lost, ticks.Preempted:
		}
	}
	return instants
}

func describe(counts map[string]int64) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return strings.Join(all, ", ")
}

// wait lets time pass in which faults have their effect.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
}
