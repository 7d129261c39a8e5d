package schedules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// In New York clocks went forward on 2 April 2000, and back on 29 October.
func TestADailyJobRunsOnceInTheNightInWhichTheClocksChange(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	forward, back := time.Date(2000, 4, 1, 23, 0, 0, 0, newYork), time.Date(2000, 10, 28, 23, 0, 0, 0, newYork)
	cases := map[string]struct {
		evening  time.Time
		schedule string
		dst      jobs.DST
		want     []string // the ticks, in UTC
	}{
		"forward":          {forward, "30 2 * * *", jobs.DST{}, []string{"07:30"}},
		"forward, skipped": {forward, "30 2 * * *", jobs.DST{Gap: jobs.GapSkip}, nil},
		"back":             {back, "30 1 * * *", jobs.DST{}, []string{"05:30"}},
		"back, both":       {back, "30 1 * * *", jobs.DST{Overlap: jobs.FoldBoth}, []string{"05:30", "06:30"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			storyAt(t, c.evening.Sub(epoch), func(t *testing.T, w *world) {
				// given two daemons with a job in New York, of which one is replaced in the middle of it
				w.session = long
				j := w.job("a", c.schedule, time.Minute)
				j.TimeZone, j.DST = "America/New_York", c.dst
				one, two := w.daemon("one", []jobs.Job{j}, skewed(time.Second)), w.daemon("two", []jobs.Job{j})
				w.Until(3 * time.Hour)
				one.drain()
				three := w.daemon("three", []jobs.Job{j}, skewed(-time.Second))
				w.Until(6 * time.Hour)
				drainAll(two, three)

				// then it has run as the policy says
				var got []string
				for _, call := range w.worked("a") {
					got = append(got, call.tick.UTC().Format("15:04"))
				}
				require.Equal(t, c.want, got)
			})
		})
	}
}
