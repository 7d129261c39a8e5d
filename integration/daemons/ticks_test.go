package daemons

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestTwoDaemonsRunEachTickOnceWhateverTheirClocksSay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		other    settings // its clock
		length   time.Duration
		together bool // both see the jobs for the first time at the same moment
	}{
		"two seconds ahead":  {other: settings{Skew: 2 * time.Second}, length: time.Minute},
		"two seconds behind": {other: settings{Skew: -2 * time.Second}, length: time.Minute},
		"alike":              {length: 20 * time.Second},
		"overtaken":          {other: settings{Skew: -time.Second, Drift: 100 * time.Millisecond}, length: 20 * time.Second},
		"started together":   {other: settings{Skew: -4 * time.Second}, length: 10 * time.Second, together: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// given two daemons with the same twenty jobs, and clocks that differ
			story := newChronicle(t)
			here := settings{Name: "here", ZK: shared.Server(t).Connect(), Root: zkserver.Root(t), Session: session}
			there := here
			there.Name, there.Skew, there.Drift = "there", test.other.Skew, test.other.Drift
			weather := watchWeather(t, here.ZK)
			a := start(t, story, here, crowd(here.Name, story.add)...)
			if !test.together {
				story.awaitProgress(time.Time{}, here.Name)
			}
			b := start(t, story, there, crowd(there.Name, story.add)...)

			// when they have worked for a while
			story.awaitProgress(time.Time{}, here.Name, there.Name)
			goal := latest(story.all()).Add(test.length)
			story.awaitUntil(goal, here.Name, there.Name)
			endTogether(a, b)

			// then each job ran at each instant, in one of them, once
			ledger := reader(t, here)
			grid := gridOf(story.all())
			require.Len(t, grid.jobs(), crowdSize)
			excused := 0
			for _, job := range grid.jobs() {
				from, to := grid.span(job)
				require.GreaterOrEqual(t, to.Sub(from), test.length)
				for _, instant := range seconds(from, goal) {
					require.Len(t, grid[job][instant], 1, grid.around(job, instant))
				}
				runs := 0
				for instant, marks := range grid[job] {
					require.Len(t, marks, 1, grid.around(job, instant))
					switch m := marks[0]; {
					case m.What == began:
						runs++
					case !instant.After(goal):
						require.True(t, weather.bad(m.At), grid.around(job, instant))
						excused++
					}
				}
				// and the ledger knows it
				state := ledger.state(job)
				require.EqualValues(t, runs, state.Counts.Ran, job)
				require.Zero(t, state.Counts.Interrupted+state.Counts.Failed+state.Counts.Lost+state.Counts.Preempted, job)
				require.Empty(t, state.Runs, job)
			}
			t.Logf("%d ticks ran here, %d there; %d were skipped while the machine was slow", ran(t, a), ran(t, b), excused)
		})
	}
}

// awaitUntil waits until all jobs of the crowd have got to an instant.
func (c *chronicle) awaitUntil(goal time.Time, daemons ...string) {
	c.t.Helper()
	at := c.awaitProgress(time.Time{}, daemons...)
	for at.Before(goal) {
		at = c.awaitProgress(at, daemons...)
	}
}

// awaitProgress waits until all jobs have got beyond an instant.
func (c *chronicle) awaitProgress(from time.Time, daemons ...string) time.Time {
	c.t.Helper()
	var at time.Time
	c.await(fmt.Sprintf("all jobs run after %s in %s", from, daemons), func(marks []mark) bool {
		at = progress(marks, daemons...)
		return at.After(from)
	})
	return at
}

func endTogether(all ...*resident) {
	var ends sync.WaitGroup
	for _, r := range all {
		r.stop()
		ends.Go(func() { <-r.done; r.done <- nil })
	}
	ends.Wait()
}

// ran returns how many ticks ran in a daemon.
func ran(t *testing.T, r *resident) (n uint64) {
	t.Helper()
	for job, stats := range r.scheduler.Stats() {
		n += stats.Ran
		require.Zero(t, stats.Failed, job)
	}
	return n
}
