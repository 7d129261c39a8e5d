package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
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

func TestATickInABlackoutIsSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
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

func TestNoTickIsMissedThatItsJitterHasHeldBack(t *testing.T) {
	for _, policy := range []jobs.MisfirePolicy{jobs.MisfireSkip, jobs.MisfireOnce, jobs.MisfireAll} {
		bubble(t, string(policy), func(t *testing.T, c *cluster) {
			// given a job whose jitter is longer than its ticks are apart
			j := job("a", "@every 1m", 0)
			j.Jitter, j.Misfire.Policy = 10*time.Minute, policy
			j.Work = jobs.Func(func(_ context.Context, run jobs.Run) error {
				if now := time.Now(); now.After(minute(20)) && now.Before(minute(60)) { // from the start on, and before it changes
					require.True(t, now.Equal(run.Due), "%s, due at %s, with its jitter", now, run.Due)
					require.False(t, run.Due.Before(run.Scheduled))
				}
				return nil
			})
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
	}
}

func TestTicksThatWaitWhenThePolicyChangesGoFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		// given ticks that wait, and no daemon
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

func TestATickThatWaitsIsRunByTheDaemonThatStartsNext(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		// given a tick that waits, and no daemon
		j := overlapping(job("a", "0 * * * *", 90*time.Minute), jobs.OverlapBufferOne, 0)
		first := start(t, c.daemon("first"), []jobs.Job{j})
		time.Sleep(2*time.Hour + time.Minute)
		first.kill()

		// when one starts, long before the next tick
		j.Work = job("a", "0 * * * *", time.Minute).Work
		second := start(t, c.daemon("second"), []jobs.Job{j})
		time.Sleep(5 * time.Minute)
		second.drain()

		// then it has run that
		require.Equal(t, []string{"interrupted", "ran"}, outcomesOf(t, c, "a", epoch.Add(time.Hour), epoch.Add(2*time.Hour), time.Hour))
	})
}
