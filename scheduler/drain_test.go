package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestDrainEndsAtOnceWhatWaitsForItsLock(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		d := start(t, c.daemon("one"), []jobs.Job{locked(job("a", "@every 1m", time.Second))})
		d.guard.set(time.Hour, nil)
		time.Sleep(61 * time.Second)
		began := time.Now()
		d.drain()
		require.Zero(t, time.Since(began))
		requireOnce(t, c, "a", minute(1), minute(1), time.Minute, "draining")
		require.EqualValues(t, 1, d.stats("a").Skipped[SkipDraining])
	})
}

func TestATickThatIsClaimedDuringTheDrainRunsIfItsLockIsFree(t *testing.T) {
	for _, free := range []bool{true, false} {
		inBubble(t, func(t *testing.T, c *cluster) {
			l := c.daemon("one")
			d := start(t, l, []jobs.Job{locked(job("a", "@every 1m", time.Second))})
			want := "ran"
			if !free {
				d.guard.set(time.Hour, nil)
				want = "lock"
			}
			time.Sleep(59 * time.Second)
			l.down()
			time.Sleep(2 * time.Second)
			d.stop()
			time.Sleep(time.Second)
			l.up()
			began := time.Now()
			d.drain()
			require.LessOrEqual(t, time.Since(began), time.Second)
			requireOnce(t, c, "a", minute(1), minute(1), time.Minute, want)
		})
	}
}

func TestDrainTellsWhatItHasWaitedForInVain(t *testing.T) {
	const over = "time to finish is over"
	slow, quick := job("slow", "@every 10s", time.Hour), job("quick", "@every 10s", 500*time.Millisecond)
	cases := map[string]struct {
		list []jobs.Job
		want []string // one line each
	}{
		"a run":                    {[]jobs.Job{slow}, []string{"cancelling what still runs\" jobs=[slow]"}},
		"the record of a run":      {[]jobs.Job{quick}, []string{"ZooKeeper has not confirmed the end of runs yet", "jobs=[quick]"}},
		"both":                     {[]jobs.Job{slow, quick}, []string{"jobs=[slow]", "jobs=[quick]"}},
		"the answers to the claim": {[]jobs.Job{job("late", "*/11 * * * * *", 0)}, []string{"nothing runs, but ZooKeeper has not answered"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCluster().daemon("one")
				d := start(t, l, tc.list, func(cfg *Config) { cfg.Drain.Finish = -1 })
				time.Sleep(10200 * time.Millisecond)
				l.down()
				time.Sleep(time.Second)
				d.drain()
				for _, want := range tc.want {
					require.Equal(t, 1, d.log.lines(over, want), d.log)
				}
				require.LessOrEqual(t, d.log.lines(over), len(tc.want), d.log)
				require.Zero(t, d.log.lines("jobs=[]"), d.log)
			})
		})
	}
}
