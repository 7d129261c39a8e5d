package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func overlapping(j jobs.Job, policy jobs.OverlapPolicy, most int) jobs.Job {
	j.Overlap = jobs.Overlap{Policy: policy, Max: most}
	return j
}

// outcomesOf returns how the instants ended that are a step apart, in order;
// several ends of one are an error, none is "".
func outcomesOf(t *testing.T, c *cluster, job string, from, to time.Time, step time.Duration) (all []string) {
	t.Helper()
	got := c.outcomes(job)
	for at := from; !at.After(to); at = at.Add(step) {
		require.LessOrEqual(t, len(got[at]), 1, "%s ended as %v", at, got[at])
		if len(got[at]) == 0 {
			all = append(all, "")
			continue
		}
		all = append(all, got[at][0])
	}
	return all
}

func TestTicksThatOverlapEndAsThePolicySays(t *testing.T) {
	cases := map[string]struct {
		policy jobs.OverlapPolicy
		most   int
		takes  time.Duration
		want   []string // from the first second on
	}{
		"skip":         {jobs.OverlapSkip, 0, 2600 * time.Millisecond, []string{"ran", "overlap", "overlap", "ran", "overlap", "overlap"}},
		"buffer one":   {jobs.OverlapBufferOne, 0, 2600 * time.Millisecond, []string{"ran", "ran", "overlap", "ran", "overlap", "overlap", "ran"}},
		"buffer all":   {jobs.OverlapBufferAll, 3, 2600 * time.Millisecond, []string{"ran", "ran", "ran", "ran", "ran", "overlap", "ran", "overlap"}},
		"cancel other": {jobs.OverlapCancelOther, 0, 2600 * time.Millisecond, []string{"interrupted", "interrupted", "interrupted", "interrupted", "interrupted", "interrupted"}},
		"allow all":    {jobs.OverlapAllowAll, 3, 2600 * time.Millisecond, []string{"ran", "ran", "ran", "ran", "ran", "ran"}},
		"allow two":    {jobs.OverlapAllowAll, 2, 2600 * time.Millisecond, []string{"ran", "ran", "overlap", "ran", "ran", "overlap"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given two daemons with a job whose runs take longer than its ticks are apart
				c := newCluster()
				list := []jobs.Job{overlapping(job("a", "@every 1s", tc.takes), tc.policy, tc.most)}
				one := start(t, c.daemon("one"), list)
				two := start(t, c.daemon("two"), list, withSkew(3*time.Millisecond))

				// when they have worked for a while
				time.Sleep(30*time.Second + 500*time.Millisecond)
				one.drain()
				two.drain()

				// then each tick has ended once, and as the policy says
				got := outcomesOf(t, c, "a", sec(1), sec(20), time.Second)
				require.Equal(t, tc.want, got[:len(tc.want)])
				require.NotContains(t, got, "")
				require.Empty(t, c.of("a").running)
				ran := uint64(0)
				for _, d := range []*daemon{one, two} {
					ran += d.stats("a").Ran + d.stats("a").Interrupted
				}
				total := 0
				for _, outcomes := range c.outcomes("a") {
					if slices.Contains([]string{"ran", "interrupted"}, outcomes[0]) {
						total++
					}
				}
				require.EqualValues(t, total, ran)
			})
		})
	}
}

func TestATickThatWaitsOutlivesTheDaemonThatSawItComeDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		list := []jobs.Job{overlapping(job("a", "@every 1m", 90*time.Second), jobs.OverlapBufferOne, 0)}
		first := start(t, c.daemon("first"), list, withSkew(time.Millisecond))
		second := start(t, c.daemon("second"), list)
		time.Sleep(2*time.Minute + time.Second) // the second tick waits
		first.kill()                            // and the first run dies
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, second.stats("a").Running)
		require.Equal(t, 1, second.log.lines("previous run was interrupted"))
		time.Sleep(80 * time.Second)
		second.drain()
		requireOnce(t, c, "a", minute(1), minute(1), time.Minute, "interrupted")
		requireOnce(t, c, "a", minute(2), minute(2), time.Minute, "ran")
	})
}

func TestARunIsCancelledWhereverTheNewTickIsSeen(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			causes := make(chan error, 10)
			j := overlapping(job("a", "@every 1m", 0), jobs.OverlapCancelOther, 0)
			j.Work = jobs.Func(func(ctx context.Context, _ jobs.Run) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return context.Cause(ctx)
			})
			d := start(t, c.daemon("one"), []jobs.Job{j})
			time.Sleep(90 * time.Second)
			if elsewhere { // a daemon that is ahead sees the next tick first
				start(t, c.daemon("two"), []jobs.Job{j}, withSkew(20*time.Second))
			}
			time.Sleep(35 * time.Second)
			superseded, ok := errors.AsType[*SupersededError](<-causes)
			require.True(t, ok)
			require.Equal(t, minute(2), superseded.By)
			requireOnce(t, c, "a", minute(1), minute(1), time.Minute, "interrupted")
			require.EqualValues(t, 1, d.stats("a").Interrupted)
		})
	}
}

func TestAJobThatIsPausedRunsNoTickButByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 10s", time.Second)})
		c.pause("a", &recipes.TickPause{By: "ana", Reason: "disk is full", Until: sec(30)})
		time.Sleep(25 * time.Second)
		require.NoError(t, d.RunNow(t.Context(), "a"))
		time.Sleep(10 * time.Second)
		d.drain()
		require.Equal(t, []string{"paused", "paused", "ran"}, outcomesOf(t, c, "a", sec(10), sec(30), 10*time.Second))
		require.Equal(t, 2, d.log.lines("tick skipped", "reason=paused", "by ana until 2000-01-01T00:00:30Z: disk is full"))
		require.EqualValues(t, 2, d.stats("a").Skipped[SkipPaused])
	})
}

func TestFailuresInARowPauseTheJobUntilATrialSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		var healthy atomic.Bool
		j := job("a", "@every 10s", 0)
		j.PauseAfterFailures, j.PauseFor = 3, 25*time.Second
		j.Work = jobs.Func(func(context.Context, jobs.Run) error {
			if healthy.Load() {
				return nil
			}
			return errors.New("boom")
		})
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(65 * time.Second)
		healthy.Store(true)
		time.Sleep(40 * time.Second)
		d.drain()
		require.Equal(t, []string{
			"failed", "failed", "failed", "paused", "paused", "failed", "paused", "paused", "ran", "ran",
		}, outcomesOf(t, c, "a", sec(10), sec(100), 10*time.Second))
		require.Equal(t, 2, d.log.lines("job is paused"))
	})
}

func TestATickInABlackoutIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		j := locked(job("a", "* * * * *", time.Second))
		j.Blackouts = []jobs.Blackout{{Schedule: "2 0 * * *", For: 2 * time.Minute, Reason: "backup of the array"}}
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(5*time.Minute + 5*time.Second)
		d.drain()
		require.Equal(t, []string{"ran", "blackout", "blackout", "ran", "ran"}, outcomesOf(t, c, "a", minute(1), minute(5), time.Minute))
		require.Equal(t, 2, d.log.lines("tick skipped", "level=INFO", "reason=blackout", "backup of the array"))
		require.Equal(t, "blackout", d.guard.skipped[0].Reason)
	})
}

func TestJitterDelaysATickAndLeavesItWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		var late []time.Duration
		j := job("a", "@every 1m", 0)
		j.Jitter = 30 * time.Second
		j.Work = jobs.Func(func(_ context.Context, run jobs.Run) error {
			require.Equal(t, run.Due, time.Now().UTC())
			late = append(late, run.Due.Sub(run.Scheduled))
			return nil
		})
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(10*time.Minute + 40*time.Second)
		d.drain()
		requireOnce(t, c, "a", minute(1), minute(10), time.Minute, "ran")
		require.Greater(t, slices.Max(late)-slices.Min(late), 5*time.Second)
		require.Less(t, slices.Max(late), 30*time.Second)
	})
}

func TestNoTickIsMissedThatItsJitterHasHeldBack(t *testing.T) {
	for _, policy := range []jobs.MisfirePolicy{jobs.MisfireSkip, jobs.MisfireOnce, jobs.MisfireAll} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given a job whose jitter is longer than its ticks are apart
				c := newCluster()
				j := job("a", "@every 1m", 0)
				j.Jitter, j.Misfire.Policy = 10*time.Minute, policy
				d := start(t, c.daemon("one"), []jobs.Job{j})
				time.Sleep(time.Hour + time.Second)

				// when it has none any more, nor had it for long
				j.Jitter = time.Minute
				_, err := d.Reconcile([]jobs.Job{j})
				require.NoError(t, err)
				j.Jitter = 0
				_, err = d.Reconcile([]jobs.Job{j})
				require.NoError(t, err)
				time.Sleep(20 * time.Minute)
				d.drain()

				// then
				requireOnce(t, c, "a", minute(1), minute(80), time.Minute, "ran")
			})
		})
	}
}

func TestTicksThatWaitWhenThePolicyChangesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given ticks that wait, and no daemon
		c := newCluster()
		j := overlapping(job("a", "@every 1m", 150*time.Second), jobs.OverlapBufferAll, 10)
		first := start(t, c.daemon("first"), []jobs.Job{j})
		time.Sleep(3*time.Minute + time.Second)
		first.kill()
		time.Sleep(3 * time.Minute)

		// when one comes that lets none wait, and makes up for all
		j.Overlap, j.Misfire = jobs.Overlap{}, jobs.Misfire{Policy: jobs.MisfireAll, Window: time.Hour}
		j.Work = job("a", "@every 1m", time.Second).Work
		second := start(t, c.daemon("second"), []jobs.Job{j})
		time.Sleep(2 * time.Minute)
		second.drain()

		// then
		require.Equal(t, []string{"interrupted", "ran", "ran", "ran", "ran"}, outcomesOf(t, c, "a", minute(1), minute(5), time.Minute))
	})
}
