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

func overlapping(j jobs.Job, policy jobs.OverlapPolicy, most int) jobs.Job {
	j.Overlap = jobs.Overlap{Policy: policy, Max: most}
	return j
}

// overlaps are the policies; most is the bound of those that have one.
var overlaps = []struct {
	policy jobs.OverlapPolicy
	most   int
}{
	{jobs.OverlapSkip, 0},
	{jobs.OverlapBufferOne, 0},
	{jobs.OverlapBufferAll, 3},
	{jobs.OverlapCancelOther, 0},
	{jobs.OverlapAllowAll, 2},
}

func TestTicksThatOverlapEndAsThePolicySays(t *testing.T) {
	want := map[jobs.OverlapPolicy][]string{
		jobs.OverlapSkip:        {"ran", "overlap", "overlap", "ran", "overlap", "overlap", "ran"},
		jobs.OverlapBufferOne:   {"ran", "ran", "overlap", "ran", "overlap", "overlap"},
		jobs.OverlapBufferAll:   {"ran", "ran", "ran", "ran", "ran", "overlap", "ran", "overlap"},
		jobs.OverlapCancelOther: {"interrupted", "interrupted", "interrupted", "interrupted", "interrupted"},
		jobs.OverlapAllowAll:    {"ran", "ran", "overlap", "ran", "ran", "overlap", "ran"},
	}
	for _, c := range overlaps {
		variant(t, string(c.policy), func(t *testing.T, w *world) {
			// given three daemons whose clocks differ, with a job whose runs take longer than its ticks are apart
			list := []jobs.Job{overlapping(w.job("a", "@every 10s", 26*time.Second), c.policy, c.most)}
			one := w.daemon("one", list)
			two := w.daemon("two", list, skewed(30*time.Millisecond))
			three := w.daemon("three", list, skewed(-200*time.Millisecond))

			// when they have worked for a while
			w.Until(3*time.Minute + 5*time.Second)
			drainAll(one, two, three)

			// then each tick has ended as the policy says
			requireTicks(t, w.outcomes("a"), want[c.policy]...)
			require.Empty(t, w.state("a").Runs)
		})
	}
}

func TestTwoDaemonsRunEachTickOnceWhateverTheirClocksSay(t *testing.T) {
	clocks := map[string]struct {
		skew, drift time.Duration // of the other daemon, at the start and in each second
		together    bool          // both see the jobs for the first time at the same moment
	}{
		"two seconds ahead":  {skew: 2 * time.Second},
		"two seconds behind": {skew: -2 * time.Second},
		"alike":              {},
		"overtaken":          {skew: -time.Second, drift: 100 * time.Millisecond},
		"started together":   {skew: -4 * time.Second, together: true},
	}
	for name, c := range clocks {
		variant(t, name, func(t *testing.T, w *world) {
			// given two daemons with the same ten jobs, half of them under locks, and clocks that differ
			var list []jobs.Job
			for i := range 10 {
				j := w.job(fmt.Sprint("job", i), "* * * * * *", 5*time.Millisecond)
				if i%2 == 0 {
					j = locked(j, j.Name)
				}
				list = append(list, j)
			}
			here := w.daemon("here", list)
			if !c.together {
				w.Pass(3500 * time.Millisecond)
			}
			drifting := func(_ *daemon, cfg *scheduler.Config) {
				begun := time.Now()
				cfg.Now = func() time.Time {
					return time.Now().Add(c.skew + time.Duration(time.Since(begun).Seconds()*float64(c.drift)))
				}
			}
			there := w.daemon("there", list, drifting)

			// when they have worked for a while
			w.Pass(25 * time.Second)
			drainAll(here, there)

			// then each tick has run, in one of them
			for _, j := range list {
				got := w.outcomes(j.Name)
				require.GreaterOrEqual(t, len(got), 23, j.Name)
				require.Equal(t, len(got), count(got, "ran"), "%s: %v", j.Name, got)
			}
		})
	}
}

// A daemon dies at some point between two ticks, whatever it does then.
func TestADaemonThatDiesLosesNoTickWhateverThePolicy(t *testing.T) {
	deaths := map[string]time.Duration{ // since the start
		"while it runs and ticks wait":      57 * time.Second,
		"when a tick has just been claimed": 40*time.Second - 99*time.Millisecond,
		"just before a tick":                40*time.Second - 101*time.Millisecond,
	}
	for _, c := range overlaps {
		for name, at := range deaths {
			variant(t, string(c.policy)+" "+name, func(t *testing.T, w *world) {
				// given three daemons with a job whose runs take longer than its ticks are apart
				list := []jobs.Job{overlapping(w.job("a", "@every 10s", 24*time.Second), c.policy, c.most)}
				daemons := []*daemon{
					w.daemon("one", list, skewed(100*time.Millisecond)), w.daemon("two", list), w.daemon("three", list, skewed(-100*time.Millisecond)),
				}

				// when one dies: the one that runs the job, if any does
				w.Until(at)
				runs := w.state("a").Runs
				dies := 0
				if len(runs) > 0 {
					dies = slices.IndexFunc(daemons, func(d *daemon) bool { return d.name == runs[0].Owner })
				}
				interrupted := daemons[dies].stats("a").Running
				daemons[dies].kill()
				daemons = slices.Delete(daemons, dies, dies+1)
				w.Pass(expiry)
				before := w.worked("a")
				w.Until(4 * time.Minute)
				drainAll(daemons...)

				// then its runs are recorded as interrupted, and the others have gone on
				require.GreaterOrEqual(t, w.state("a").Counts.Interrupted, int64(interrupted))
				require.Greater(t, len(w.worked("a")), len(before)+4)
				require.True(t, w.state("a").Last.After(w.at(3*time.Minute+40*time.Second)))
			})
		}
	}
}

func TestARunIsCancelledByATickThatAnotherDaemonSees(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a run of a daemon that has no more to say about the job
		j := overlapping(w.job("a", "@every 1m", 50*time.Second), jobs.OverlapCancelOther, 0)
		one := w.daemon("one", []jobs.Job{j}, skewed(time.Second))
		two := w.daemon("two", []jobs.Job{j})
		w.Until(time.Minute + 10*time.Second)
		require.Equal(t, 1, one.stats("a").Running)
		require.Zero(t, two.stats("a").Running)
		_, err := one.Reconcile(nil)
		require.NoError(t, err)
		require.Equal(t, 1, w.goesOn("a"))
		again := overlapping(w.job("a", "@every 15s", 50*time.Second), jobs.OverlapCancelOther, 0)

		// when another one sees a newer tick
		w.changes("a")
		_, err = two.Reconcile([]jobs.Job{again})
		require.NoError(t, err)
		w.Until(time.Minute + 20*time.Second)

		// then the run is cancelled, and for which tick
		call := w.worked("a")[0]
		var superseded *scheduler.SupersededError
		require.ErrorAs(t, call.cause, &superseded)
		require.Equal(t, w.at(75*time.Second), superseded.By)
		require.Equal(t, 75*time.Second, call.ended)
		require.EqualValues(t, "interrupted", w.end("a", time.Minute).Outcome)

		// and the tick runs there
		require.Equal(t, 1, two.stats("a").Running)
		drainAll(one, two)
	})
}

func TestATickThatWaitsRunsAsSoonAsTheDaemonInItsWayIsDead(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a run, and a tick that waits for its end
		list := []jobs.Job{overlapping(w.job("a", "@every 10m", 15*time.Minute), jobs.OverlapBufferOne, 0)}
		one, two := w.daemon("one", list, skewed(100*time.Millisecond)), w.daemon("two", list)
		w.Until(21 * time.Minute)
		require.Equal(t, []string{"goes on", "waits"}, w.outcomes("a"))

		// when the daemon of the run dies
		owner, other := w.owner("a", one, two)
		owner.kill()

		// then the tick runs when its session has ended, long before the next one is due
		w.Pass(expiry + 2*time.Second)
		require.Equal(t, []string{"interrupted", "goes on"}, w.outcomes("a"))
		require.Equal(t, 1, other.stats("a").Running)
		w.Pass(15 * time.Minute)
		other.drain()
	})
}
