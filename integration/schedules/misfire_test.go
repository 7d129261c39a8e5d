package schedules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func misfiring(j jobs.Job, m jobs.Misfire) jobs.Job {
	j.Misfire = m
	return j
}

func TestTicksThatWereDueWhileNoDaemonRanEndAsThePolicySays(t *testing.T) {
	const missed = "missed"
	many := func(n int, what string) []string { return slices.Repeat([]string{what}, n) }
	cases := map[string]struct {
		misfire jobs.Misfire
		want    []string // of 2880, the newest of them half a minute ago
	}{
		"once":    {jobs.Misfire{}, append(many(2879, missed), "ran")},
		"skip":    {jobs.Misfire{Policy: jobs.MisfireSkip}, many(2880, missed)},
		"all":     {jobs.Misfire{Policy: jobs.MisfireAll, Window: 5 * time.Minute}, append(many(2875, missed), many(5, "ran")...)},
		"at most": {jobs.Misfire{Policy: jobs.MisfireAll, Max: 3}, append(many(2877, missed), many(3, "ran")...)},
	}
	for name, c := range cases {
		variant(t, name, func(t *testing.T, w *world) {
			// given two daemons that were stopped, one after the other, while a job ran
			list := []jobs.Job{misfiring(w.job("a", "* * * * *", 2*time.Second), c.misfire)}
			one, two := w.daemon("one", list), w.daemon("two", list, skewed(300*time.Millisecond))
			w.Until(2*time.Minute + time.Second)
			one.drain()
			w.Until(2*time.Minute + 30*time.Second)
			two.drain()

			// when two come back after two days, at about the same time
			w.Pass(2 * day)
			three, four := w.daemon("three", list), w.daemon("four", list, skewed(-300*time.Millisecond))
			w.Pass(45 * time.Second)
			drainAll(three, four)

			// then each tick has ended as the policy says
			got := w.outcomes("a")
			require.Equal(t, slices.Concat([]string{"ran", "ran"}, c.want, []string{"ran"}), got)
			require.Len(t, w.worked("a"), len(got)-int(w.state("a").Counts.Skipped[missed]))
			if name == "once" {
				require.True(t, three.said("ticks were missed") || four.said("ticks were missed"))
			}
		})
	}
}

// What a tick becomes when ZooKeeper is silent, by the policy: "undecided" in
// the ledger, or a run that is late.
func TestAnOutageOfZooKeeperLeavesNoTickWithoutARecord(t *testing.T) {
	policies := map[string]jobs.Misfire{
		"once": {}, "skip": {Policy: jobs.MisfireSkip}, "all": {Policy: jobs.MisfireAll},
	}
	for name, misfire := range policies {
		for _, outage := range []time.Duration{30 * time.Second, 10 * time.Minute} {
			variant(t, fmt.Sprintf("%s, %s", name, outage), func(t *testing.T, w *world) {
				// given three daemons with jobs that are due often, one with a lock
				list := []jobs.Job{
					misfiring(w.job("often", "@every 10s", 500*time.Millisecond), misfire),
					misfiring(w.job("locked", "@every 20s", 3*time.Second), misfire),
					misfiring(overlapping(w.job("buffered", "@every 15s", 16*time.Second), jobs.OverlapBufferAll, 5), misfire),
				}
				list[1] = locked(list[1], "db")
				one, two := w.daemon("one", list), w.daemon("two", list, skewed(2*time.Second))
				three := w.daemon("three", list, skewed(-time.Second))

				// when ZooKeeper is silent for a while, in the middle of runs
				w.Until(62 * time.Second)
				w.Partition("one", "two", "three")
				w.Pass(outage)
				w.Heal("one", "two", "three")

				// then all ticks go on soon
				w.Pass(50 * time.Second)
				ran := len(w.worked("often"))
				w.Pass(60 * time.Second)
				require.GreaterOrEqual(t, len(w.worked("often")), ran+5)
				drainAll(one, two, three)
				counts := w.state("often").Counts
				t.Logf("%+v", counts)
				if misfire.Policy == jobs.MisfireAll {
					require.LessOrEqual(t, counts.Total()-counts.Ran, int64(2), "%+v", counts)
				} else {
					require.GreaterOrEqual(t, counts.Skipped["undecided"]+counts.Skipped["missed"], int64(outage/(10*time.Second))-1)
				}
			})
		}
	}
}

// The owner of a new job dies before its first tick, which is too old when
// another one owns it.
func TestAJobWhoseFirstTickIsMissedBeginsWithIt(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		list := []jobs.Job{misfiring(w.job("a", "@every 30s", time.Second), jobs.Misfire{Policy: jobs.MisfireSkip})}
		one, two := w.daemon("one", list, spread), w.daemon("two", list, spread)
		w.Until(28 * time.Second)
		owner, other := one, two
		if !one.said("job is owned by this daemon") {
			owner, other = two, one
		}
		owner.kill()
		w.Until(95 * time.Second)
		other.drain()
		require.Equal(t, []string{"missed", "ran", "ran"}, w.outcomes("a"))
		require.Equal(t, w.at(30*time.Second), w.state("a").Begins)
	})
}
