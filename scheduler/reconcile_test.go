package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestAThousandReloadsLoseNoTickAndDoubleNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given two daemons with jobs that run all the time
		c := newCluster()
		version := func(n int) (list []jobs.Job) {
			for i := range 10 {
				j := job(fmt.Sprint("job", i), []string{"@every 1s", "* * * * * *"}[n%2], time.Duration(10*i)*time.Millisecond)
				j.Timeout = time.Duration(n+1) * time.Hour
				j.Blackouts = []jobs.Blackout{{Schedule: "0 0 1 1 *", TimeZone: "Asia/Tokyo", For: time.Second}}
				list = append(list, j)
			}
			return list
		}
		one := start(t, c.daemon("one"), version(0))
		two := start(t, c.daemon("two"), version(0), withSkew(500*time.Millisecond))

		// when they are reconciled a thousand times, every other time with jobs that cannot be
		for n := range 1000 {
			list := version(n / 2)
			if n%2 == 1 {
				list[n%10].Schedule = "0 0 30 2 *"
			}
			changes, err := []*daemon{one, two}[n/2%2].Reconcile(list)
			require.Equal(t, n%2 == 1, err != nil)
			if n%2 == 1 {
				require.ErrorAs(t, err, new(*SpecError))
				require.Empty(t, changes)
			} else if n > 3 {
				require.Len(t, changes.Changed, 10)
				require.Empty(t, changes.Added)
			}
			time.Sleep(61 * time.Millisecond)
		}
		one.drain()
		two.drain()

		// then each tick has run once
		for _, j := range version(0) {
			requireOnce(t, c, j.Name, sec(1), sec(61), time.Second, "ran")
		}
	})
}

func TestJobsAreReconciledByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
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

func TestARunThatGoesOnWhenItsJobComesBackIsNotDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		list := []jobs.Job{job("a", "@every 10s", 25*time.Second)}
		d := start(t, c.daemon("one"), list)
		time.Sleep(12 * time.Second)
		for _, l := range [][]jobs.Job{nil, list, nil, list} {
			_, err := d.Reconcile(l)
			require.NoError(t, err)
			synctest.Wait()
		}
		time.Sleep(30 * time.Second)
		d.drain()
		require.Equal(t, []string{"ran", "overlap", "overlap", "ran"}, outcomesOf(t, c, "a", sec(10), sec(40), 10*time.Second))
	})
}

func TestJobsThatCannotBeReconciledChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 10s", time.Second)})
		_, err := d.Reconcile([]jobs.Job{job("b", "@every 10s", 0), job("c", "nonsense", 0), job("b", "@every 1s", 0)})
		require.ErrorContains(t, err, `job "c"`)
		require.ErrorContains(t, err, "another job has this name")
		time.Sleep(11 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(10), sec(10), time.Second, "ran")
		require.Empty(t, c.outcomes("b"))
	})
}

func TestReconcilingBesideTheDrainIsSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 1s", time.Millisecond)})
		var reloads sync.WaitGroup
		for n := range 20 {
			reloads.Go(func() {
				time.Sleep(2*time.Second + time.Duration(n)*time.Millisecond)
				_, _ = d.Reconcile([]jobs.Job{job(fmt.Sprint("b", n%3), "@every 1s", time.Millisecond)})
			})
		}
		time.Sleep(2*time.Second + 10*time.Millisecond)
		d.drain()
		reloads.Wait()
		time.Sleep(10 * time.Second)
	})
}

func TestANewSetOfJobsIsSpreadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := newSeat()
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 1s", time.Millisecond)}, spreadOver(s))
		s.give("a")
		first := s.spec.Name
		time.Sleep(3500 * time.Millisecond)
		s.joined = make(chan struct{})
		_, err := d.Reconcile([]jobs.Job{job("a", "@every 1s", time.Millisecond), job("b", "@every 1s", time.Millisecond)})
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, s.left)
		require.Equal(t, []string{"a", "b"}, s.spec.Locks)
		require.NotEqual(t, first, s.spec.Name)
		time.Sleep(2 * time.Second) // nobody's
		s.give("a")
		s.give("b")
		time.Sleep(3 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(1), sec(8), time.Second, "ran")
		requireOnce(t, c, "b", sec(4), sec(8), time.Second, "ran")
	})
}

func TestTicksComeDueWhileJobsAreReconciledAndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
				for range 3000 {
					l.poke()
				}
			})
		}
		busy.Go(func() {
			for n := range 3000 {
				_, err := d.Reconcile(version(n))
				require.NoError(t, err)
			}
		})
		busy.Go(func() {
			for range 300 {
				_ = d.RunNow(t.Context(), "a")
				d.Stats()
			}
		})
		busy.Wait()
		d.drain()
	})
}
