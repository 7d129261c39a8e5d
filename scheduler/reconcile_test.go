package scheduler

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestJobsAreReconciledByName(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		d := start(t, c.daemon("one"), []jobs.Job{job("stays", "@every 10s", time.Second), job("goes", "@every 10s", 15*time.Second), job("moves", "@every 10s", time.Second)})
		time.Sleep(12 * time.Second)

		// when a job goes whose run goes on, one comes and one has another schedule
		changes, err := d.Reconcile([]jobs.Job{job("stays", "@every 10s", time.Second), job("moves", "@every 1m", time.Second), job("comes", "@every 5s", time.Second)})
		require.NoError(t, err)
		require.Equal(t, Changes{Added: []string{"comes"}, Changed: []string{"moves", "stays"}, Removed: []string{"goes"}}, changes)
		time.Sleep(50 * time.Second)

		// then the run ends well, and each has the ticks that it should have
		requireOnce(t, c, "goes", sec(10), sec(10), time.Second, "ran")
		require.Len(t, c.outcomes("goes"), 1)
		requireOnce(t, c, "stays", sec(10), sec(60), 10*time.Second, "ran")
		require.Equal(t, []string{"ran", "", "ran"}, outcomesOf(t, c, "moves", sec(10), sec(60), 25*time.Second))
		requireOnce(t, c, "comes", sec(15), sec(60), 5*time.Second, "ran")
		require.NotContains(t, d.Stats(), "goes")
		require.ErrorAs(t, d.RunNow(t.Context(), "goes"), new(*UnknownJobError))

		// and one of whose name there are two is refused
		_, err = d.Reconcile([]jobs.Job{job("stays", "@every 10s", 0), job("stays", "@every 1s", 0)})
		require.ErrorContains(t, err, "another job has this name")

		// and one that comes back goes on where it was
		_, err = d.Reconcile([]jobs.Job{job("goes", "@every 10s", time.Second)})
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		requireOnce(t, c, "goes", sec(70), sec(80), 10*time.Second, "ran")
		d.drain()
		_, err = d.Reconcile(nil)
		require.ErrorIs(t, err, ErrStopped)
	})
}

func TestTicksComeDueWhileJobsAreReconciledAndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 3000
		if testing.Short() {
			times = 300
		}
		// the locks of lanes and of the scheduler are taken in one order: else this does not end
		c := newCluster()
		version := func(n int) []jobs.Job {
			j := job("a", "@every 1s", 0)
			j.Timeout = time.Duration(n+1) * time.Second
			return []jobs.Job{j}
		}
		d := start(t, c.daemon("one"), version(0))
		l := d.laneOf("a")
		var busy sync.WaitGroup
		for range 4 {
			busy.Go(func() {
				for range times {
					l.poke()
				}
			})
		}
		busy.Go(func() {
			for n := range times {
				_, err := d.Reconcile(version(n))
				require.NoError(t, err)
			}
		})
		busy.Go(func() {
			for range times / 10 {
				_ = d.RunNow(t.Context(), "a")
				d.Stats()
			}
		})
		busy.Wait()
		d.drain()
	})
}
