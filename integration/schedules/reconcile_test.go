package schedules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func TestAThousandReloadsLoseNoTickAndDoubleNone(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given two daemons with a job for each policy
		version := func(n int) (list []jobs.Job) {
			for i, c := range overlaps {
				j := overlapping(w.job(fmt.Sprint("job", i), []string{"@every 1s", "* * * * * *"}[n%2], time.Duration(100+400*i)*time.Millisecond), c.policy, c.most)
				j.Timeout = time.Duration(n+1) * time.Hour
				list = append(list, j)
			}
			return list
		}
		daemons := []*daemon{w.daemon("one", version(0)), w.daemon("two", version(0), skewed(300*time.Millisecond))}

		// when they are reconciled a thousand times, every other time with jobs that cannot be, and a session ends on the way
		for n := range 1000 {
			list := version(n / 2)
			if n%2 == 1 {
				list[n%len(list)].Schedule = "0 0 30 2 *"
			}
			changes, err := daemons[n/2%2].Reconcile(list)
			require.Equal(t, n%2 == 1, err != nil)
			if err != nil {
				require.ErrorAs(t, err, new(*scheduler.SpecError))
				require.Empty(t, changes)
			}
			if n == 500 {
				daemons[0].expire()
			}
			<-time.After(31 * time.Millisecond)
		}
		drainAll(daemons...)

		// then each tick has one outcome, and those that do not overlap have all run, as far as the session allows
		for i, c := range overlaps {
			got := w.outcomes(fmt.Sprint("job", i))
			require.GreaterOrEqual(t, len(got), 30, "%s", c.policy)
			t.Logf("%s: %v", c.policy, w.state(fmt.Sprint("job", i)).Counts)
			if i == 0 {
				require.GreaterOrEqual(t, count(got, "ran"), len(got)-2, "%v", got)
			}
		}
	})
}

func count(all []string, what string) (n int) {
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// Jobs come, go and come back, in one daemon sooner than in the other one.
func TestJobsThatComeAndGoGoOnWhereTheyWere(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given two daemons with a job whose ticks wait
		stays := w.job("stays", "@every 10s", time.Second)
		goes := overlapping(w.job("goes", "@every 10s", 14*time.Second), jobs.OverlapBufferAll, 3)
		one, two := w.daemon("one", []jobs.Job{stays, goes}), w.daemon("two", []jobs.Job{stays, goes}, skewed(time.Second))
		w.Until(55 * time.Second)

		// when it is removed in one and then in the other one, and comes back two minutes later
		for i, d := range []*daemon{one, two} {
			changes, err := d.Reconcile([]jobs.Job{stays})
			require.NoError(t, err)
			require.Equal(t, []string{"goes"}, changes.Removed)
			w.Until(time.Duration(60+15*i) * time.Second)
		}
		w.Until(2 * time.Minute)
		require.Zero(t, w.goesOn("goes"), "no daemon has it, and its ticks wait")
		waiting := w.state("goes").Waiting
		require.NotEmpty(t, waiting)
		w.Until(195 * time.Second)
		for _, d := range []*daemon{two, one} {
			changes, err := d.Reconcile([]jobs.Job{goes, stays})
			require.NoError(t, err)
			require.Equal(t, []string{"goes"}, changes.Added)
		}

		// then what waited runs, and what was missed is recorded
		w.Until(5 * time.Minute)
		drainAll(one, two)
		got := w.outcomes("goes")
		for _, at := range waiting {
			require.True(t, slices.ContainsFunc(w.worked("goes"), func(c call) bool { return c.tick.Equal(at) }), "%s: %v", at, got)
		}
		require.Contains(t, got, "missed")
		require.Len(t, w.outcomes("stays"), count(w.outcomes("stays"), "ran"))
	})
}
