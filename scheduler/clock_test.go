package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A stopwatch notes when ticks run, by the bubble's clock, which is right.
type stopwatch struct {
	mu  sync.Mutex
	ran map[time.Time][]time.Duration // by tick: how late each run of it began; negative: early
}

func (w *stopwatch) job(name, schedule string) jobs.Job {
	return jobs.Job{Name: name, Schedule: schedule, Work: jobs.Func(func(_ context.Context, run jobs.Run) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ran == nil {
			w.ran = map[time.Time][]time.Duration{}
		}
		w.ran[run.Scheduled] = append(w.ran[run.Scheduled], time.Since(run.Scheduled))
		return nil
	})}
}

// earliest returns how late the earliest run began, and the latest one.
func (w *stopwatch) bounds() (earliest, latest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Values(w.ran))...)
	return slices.Min(all), slices.Max(all)
}

// synced is a cluster of which daemons know ZooKeeper's clock, that much ahead.
func synced(ahead time.Duration) *cluster {
	c := newCluster()
	c.server = new(atomic.Int64)
	c.server.Store(int64(ahead))
	return c
}

// withClock is a machine's clock that the test moves.
func withClock(ahead *atomic.Int64) option {
	return func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }
}

// Given daemons whose clocks are a day and a minute and a half ahead, one that is
// behind, one that is right and one that jumps, when they run a job together, then no
// tick runs early by more than the bound, none is lost, and none runs twice; nor when
// those with the wrong clocks are gone.
func TestClocksThatAreAheadTakeNoTickFromThoseThatAreRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := synced(0), &stopwatch{}
		all := []jobs.Job{w.job("a", "@every 1s")}
		var jumps atomic.Int64
		wrong := []*daemon{
			start(t, c.daemon("a day ahead"), all, withSkew(24*time.Hour)),
			start(t, c.daemon("ahead"), all, withSkew(90*time.Second)),
			start(t, c.daemon("behind"), all, withSkew(-90*time.Second)),
			start(t, c.daemon("jumps"), all, withClock(&jumps)),
		}
		right := start(t, c.daemon("right"), all)
		time.Sleep(60 * time.Second)
		jumps.Store(int64(6 * time.Hour))
		time.Sleep(60 * time.Second)
		jumps.Store(int64(-10 * time.Minute))
		time.Sleep(60 * time.Second)
		for _, d := range wrong {
			d.drain()
		}
		time.Sleep(30*time.Second + 500*time.Millisecond)
		right.drain()

		requireOnce(t, c, "a", sec(2), sec(210), time.Second, "ran")
		earliest, latest := w.bounds()
		require.GreaterOrEqual(t, earliest, -ticks.Tolerance)
		require.Less(t, latest, time.Second)
		for tick, runs := range w.ran {
			require.Len(t, runs, 1, tick)
		}
		require.NotZero(t, wrong[0].stats("a").Ran, "who is ahead runs ticks, by ZooKeeper's clock")

		for i, words := range []string{"ahead of ZooKeeper's", "ahead of ZooKeeper's", "behind ZooKeeper's"} {
			require.Equal(t, 1, wrong[i].log.lines("level=WARN", words, "remedy"), i)
		}
		require.Equal(t, 1, wrong[3].log.lines("level=WARN", "ahead of ZooKeeper's", "by=5h59m59.99s"))
		require.Equal(t, 1, wrong[3].log.lines("level=WARN", "behind ZooKeeper's"))
		require.Zero(t, right.log.lines("ZooKeeper's"))
	})
}

func TestDaemonSaysThatItsClockIsRightAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		c := synced(0)
		d := start(t, c.daemon("one"), []jobs.Job{job("a", "@every 1s", 0)}, withClock(&ahead))
		say := func(by time.Duration) (warned, right int) {
			ahead.Store(int64(by))
			time.Sleep(2 * wakeEvery)
			off, ok := d.ClockAhead()
			require.True(t, ok)
			require.InDelta(t, by, off, float64(10*time.Millisecond))
			return d.log.lines("level=WARN", "this machine's clock"), d.log.lines("right again")
		}
		for i, step := range []struct {
			by            time.Duration
			warned, right int
		}{
			{900 * time.Millisecond, 0, 0},
			{2 * time.Second, 1, 0},
			{2500 * time.Millisecond, 1, 0}, // that is known
			{time.Minute, 2, 0},
			{-time.Minute, 3, 0},
			{0, 3, 1},
			{2 * time.Second, 4, 1},
		} {
			warned, right := say(step.by)
			require.Equal(t, step.warned, warned, i)
			require.Equal(t, step.right, right, i)
		}
	})
}

// Given a leader whose clock is wrong, then ticks are late or as they were, and when
// another one leads whose clock is right, then what the misfire policy makes up for
// is not lost.
func TestLeadersWhoseClocksAreWrongMakeTicksLateAndNeverEarly(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w := synced(0), &stopwatch{}
				j := w.job("a", "@every 10s")
				j.Misfire = jobs.Misfire{Policy: jobs.MisfireAll, Window: 2 * time.Hour, Max: 1000}
				a, b := start(t, c.daemon("a"), []jobs.Job{j}), start(t, c.daemon("b"), []jobs.Job{j}, withSkew(90*time.Second))
				time.Sleep(5 * time.Minute)

				c.server.Store(int64(ahead)) // another leader
				time.Sleep(5 * time.Minute)
				c.server.Store(0) // and another one
				time.Sleep(5 * time.Minute)
				a.drain()
				b.drain()

				requireOnce(t, c, "a", sec(10), sec(880), 10*time.Second, "ran")
				earliest, latest := w.bounds()
				if ahead > 0 {
					require.GreaterOrEqual(t, earliest, -90*time.Second, "the clock of b")
					require.Less(t, latest, time.Second)
				} else {
					require.GreaterOrEqual(t, earliest, -ticks.Tolerance)
					require.Less(t, latest, 5*time.Minute+2*wakeEvery)
				}
			})
		})
	}
}

// Given a tick that the ledger refuses, because the clock of a new leader is behind,
// then it waits, is not recorded, and runs when the time has come.
func TestTickThatTheLedgerRefusesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := synced(0), &stopwatch{}
		l := c.daemon("one").takes(300 * time.Millisecond)
		d := start(t, l, []jobs.Job{w.job("a", "@every 5s")})
		time.Sleep(5100 * time.Millisecond) // the tick is due, and the ledger is asked
		c.server.Store(-int64(20 * time.Second))
		time.Sleep(10 * time.Second)
		before := len(c.outcomes("a"))
		time.Sleep(30 * time.Second)
		d.drain()
		require.LessOrEqual(t, before, 1)
		requireOnce(t, c, "a", sec(5), sec(20), 5*time.Second, "ran")
		require.Zero(t, d.log.lines("tick skipped"))
	})
}

// Given a daemon that starts while ZooKeeper does not answer, and whose clock is a day
// ahead, then it fires nothing before it knows ZooKeeper's clock, and goes by that.
func TestNoTickIsFiredBeforeZooKeepersClockIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := synced(0), &stopwatch{}
		l := c.daemon("one")
		l.down()
		d := start(t, l, []jobs.Job{w.job("a", "@every 1s")}, withSkew(24*time.Hour))
		time.Sleep(10*time.Second + 500*time.Millisecond)
		require.Empty(t, c.outcomes("a"))
		_, err := d.Reconcile([]jobs.Job{w.job("a", "@every 1s"), w.job("b", "@every 1s")})
		require.NoError(t, err)
		l.up()
		time.Sleep(10 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(13), sec(20), time.Second, "ran")
		requireOnce(t, c, "b", sec(13), sec(20), time.Second, "ran")
	})
}

// Given a job that a daemon begins whose clock is behind, when one whose clock is
// right sees it for the first time in the same moment, then what lies between is
// recorded.
func TestNoGapIsLeftBehindByADaemonWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := synced(0), &stopwatch{}
		all := []jobs.Job{w.job("a", "@every 1s")}
		time.Sleep(200 * time.Second)
		right := start(t, c.daemon("right"), all)
		_, err := c.daemon("behind").Begin(t.Context(), "a", sec(110))
		require.NoError(t, err)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		right.drain()
		requireOnce(t, c, "a", sec(110), sec(195), time.Second, "missed")
		requireOnce(t, c, "a", sec(196), sec(200), time.Second, "ran", "undecided") // late, or just too late
		requireOnce(t, c, "a", sec(201), sec(205), time.Second, "ran")
	})
}
