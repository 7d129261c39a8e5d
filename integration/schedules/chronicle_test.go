package schedules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// A chronicle collects what the ledger says about each job, for longer than the
// ledger itself keeps it.
type chronicle struct {
	t      *testing.T
	ledger *ticks.Ledger
	ctx    context.Context
	stop   context.CancelFunc

	watching sync.WaitGroup
	mu       sync.Mutex
	books    map[string]*book
}

// A book is what was seen of one job.
type book struct {
	schedule scheduler.Schedule      // nil: it has changed
	ends     map[string]ticks.Result // runs that have ended, by id
	skips    map[string]ticks.Result // of ticks, by reason and the first of those that one entry is about
	state    ticks.State
	problems []string
}

func newChronicle(t *testing.T, ledger *ticks.Ledger) *chronicle {
	c := &chronicle{t: t, ledger: ledger, books: make(map[string]*book)}
	c.ctx, c.stop = context.WithCancel(t.Context())
	t.Cleanup(c.watching.Wait)
	t.Cleanup(c.stop)
	return c
}

func (c *chronicle) follow(job jobs.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.books[job.Name] != nil {
		return
	}
	schedule, err := scheduler.ParseJob(job)
	require.NoError(c.t, err)
	b := &book{schedule: schedule, ends: make(map[string]ticks.Result), skips: make(map[string]ticks.Result)}
	c.books[job.Name] = b
	c.watching.Go(func() {
		for {
			state, err := c.ledger.Await(c.ctx, job.Name, b.state)
			if err != nil {
				return
			}
			c.mu.Lock()
			b.see(state)
			c.mu.Unlock()
		}
	})
}

// see takes note of a state.
func (b *book) see(state ticks.State) {
	problem := func(format string, args ...any) { b.problems = append(b.problems, fmt.Sprintf(format, args...)) }
	if state.Last.Before(b.state.Last) {
		problem("the last instant went back from %s to %s", b.state.Last, state.Last)
	}
	for _, r := range state.History {
		if r.Outcome == ticks.Skipped && !r.Manual {
			b.skips[r.Reason+r.First.String()] = r
			continue
		}
		if was, known := b.ends[r.ID]; known && (was.Outcome != r.Outcome || was.Reason != r.Reason || !was.Instant.Equal(r.Instant)) {
			problem("the end of %s was changed from %+v to %+v", r.ID, was, r)
		}
		b.ends[r.ID] = r
	}
	for _, run := range state.Runs {
		if end, known := b.ends[run.ID]; known {
			problem("%+v goes on although it has ended: %+v", run, end)
		}
	}
	b.state = state
}

// book returns what was seen of a job up to now.
func (w *world) book(job string) *book {
	synctest.Wait()
	w.chronicle.mu.Lock()
	defer w.chronicle.mu.Unlock()
	require.NotNil(w.T, w.chronicle.books[job], "no daemon has a job %s", job)
	b := *w.chronicle.books[job]
	b.ends, b.skips, b.problems = maps.Clone(b.ends), maps.Clone(b.skips), slices.Clone(b.problems)
	return &b
}

// changes says that the schedule of a job will not be the same all the time.
func (w *world) changes(job string) {
	w.chronicle.mu.Lock()
	defer w.chronicle.mu.Unlock()
	w.chronicle.books[job].schedule = nil
}

// state is what the ledger says of a job now.
func (w *world) state(job string) ticks.State { return w.book(job).state }

// --- what it tells ----------------------------------------------------------------

// outcomes returns how the ticks of a job have ended, in order: its outcome, or
// the reason of a skip; "goes on" or "waits".
func (w *world) outcomes(job string) (all []string) {
	w.Helper()
	b := w.book(job)
	entries := b.entries(w.T)
	for _, at := range b.instants() {
		switch n := len(entries[at]); n {
		case 0:
			all = append(all, "?") // one of many that were skipped
		case 1:
			all = append(all, entries[at][0])
		default:
			require.Len(w.T, entries[at], 1, "%s: tick %s", job, at)
		}
	}
	return all
}

// instants are those from the first one to the last one that was decided.
func (b *book) instants() (all []time.Time) {
	for at := b.schedule.Next(b.state.Begins.Add(-1)); !at.IsZero() && !at.After(b.state.Last); at = b.schedule.Next(at) {
		all = append(all, at.UTC())
	}
	return all
}

// entries returns what there is about each tick.
func (b *book) entries(t *testing.T) map[time.Time][]string {
	entries := make(map[time.Time][]string)
	add := func(at time.Time, what string) {
		if at = at.UTC(); !slices.Contains(entries[at], what) {
			entries[at] = append(entries[at], what)
		}
	}
	for _, run := range b.state.Runs {
		if !run.Manual {
			add(run.Instant, "goes on")
		}
	}
	for _, at := range b.state.Waiting {
		add(at, "waits")
	}
	ended := make(map[time.Time]string)
	for id, end := range b.ends {
		if end.Manual {
			continue
		}
		require.Empty(t, ended[end.Instant], "two runs have ended for the tick %s", end.Instant)
		ended[end.Instant] = id
		add(end.Instant, string(end.Outcome))
	}
	for _, skip := range b.skips {
		var span []time.Time
		if b.schedule != nil {
			for at := skip.First; !at.After(skip.Instant); at = b.schedule.Next(at) {
				span = append(span, at)
			}
		}
		if int64(len(span)) != skip.Count {
			span = []time.Time{skip.First, skip.Instant} // and some in between
		}
		for _, at := range span {
			add(at, skip.Reason)
		}
	}
	return entries
}

// end returns how the run of a tick has ended.
func (w *world) end(job string, at time.Duration) ticks.Result {
	w.Helper()
	for _, end := range w.book(job).ends {
		if !end.Manual && end.Instant.Equal(w.at(at)) {
			return end
		}
	}
	require.FailNow(w.T, "no run has ended", "%s at %s", job, at)
	return ticks.Result{}
}

// --- and the books are closed -------------------------------------------------------

// close balances all books: see the package.
func (c *chronicle) close(w *world) {
	c.t.Helper()
	for job := range c.books {
		w.book(job).balance(c.t, job, w.worked(job))
	}
}

func (b *book) balance(t *testing.T, job string, calls []call) {
	t.Helper()
	require.Empty(t, b.problems, job)
	worked := b.requireRecorded(t, job, calls)
	for at, all := range b.entries(t) {
		if len(all) != 1 { // there may be thousands
			require.Len(t, all, 1, "%s: tick %s", job, at)
		}
	}

	// What the history has told is what was counted.
	var counts ticks.Counts
	var manual, going int64
	for id, end := range b.ends {
		switch end.Outcome {
		case ticks.Ran:
			counts.Ran++
			require.Equal(t, max(1, end.Attempts)+end.Preemptions, worked[id], "%s: attempts of %+v", job, end)
		case ticks.Failed:
			counts.Failed++
		case ticks.Preempted:
			counts.Preempted++
		case ticks.Lost:
			counts.Lost++
		case ticks.Interrupted:
			counts.Interrupted++
		case ticks.Skipped:
		}
		if end.Manual {
			manual++
		}
	}
	counts.Skipped = b.state.Counts.Skipped
	require.Equal(t, b.state.Counts, counts, "%s: the counts, and what the history has told", job)

	// And each instant has one entry.
	if b.schedule == nil {
		return
	}
	for _, run := range b.state.Runs {
		if !run.Manual {
			going++
		}
	}
	require.EqualValues(t, len(b.instants()), b.state.Counts.Total()-manual+going+int64(len(b.state.Waiting)),
		"%s: instants from %s to %s, and their entries: %+v, going on: %v, waiting: %v",
		job, b.state.Begins, b.state.Last, b.state.Counts, b.state.Runs, b.state.Waiting)
}

// requireRecorded compares the work that was seen with the records of its runs,
// and returns how often each run was at work.
func (b *book) requireRecorded(t *testing.T, job string, calls []call) map[string]int {
	t.Helper()
	runs := make(map[time.Time]string)
	worked := make(map[string]int)
	for _, c := range calls {
		worked[c.run]++
		if c.tick.IsZero() {
			continue
		}
		tick := c.tick.UTC()
		if run, known := runs[tick]; known {
			require.Equal(t, run, c.run, "%s: two runs of the tick %s", job, tick)
		}
		runs[tick] = c.run
	}
	for run := range worked {
		end, ended := b.ends[run]
		going := slices.ContainsFunc(b.state.Runs, func(r ticks.Run) bool { return r.ID == run })
		require.True(t, ended || going, "%s: run %s has worked and is not recorded", job, run)
		require.NotEqual(t, ticks.Skipped, end.Outcome, "%s: run %s has worked", job, run)
	}
	for _, skip := range b.skips {
		require.Zero(t, worked[skip.ID], "%s: a run has worked that is recorded as skipped: %+v", job, skip)
	}
	return worked
}

// requireTicks compares how the first ticks of a job have ended.
func requireTicks(t *testing.T, got []string, want ...string) {
	t.Helper()
	require.GreaterOrEqual(t, len(got), len(want), "%v", got)
	require.Equal(t, want, got[:len(want)], "%v", got)
}
