package scheduler

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestTicksThatNoDaemonSawEndAsThePolicySays(t *testing.T) {
	cases := map[string]struct {
		misfire jobs.Misfire
		want    []string // from the third minute on, in which nobody was there, to the twelfth
	}{
		"by default": {jobs.Misfire{}, []string{"missed", "missed", "missed", "missed", "missed", "missed", "missed", "missed", "ran", "ran"}},
		"once":       {jobs.Misfire{Policy: jobs.MisfireOnce, Window: 5 * time.Minute}, []string{"", "", "", "missed x4", "missed", "missed", "missed", "missed", "ran", "ran"}},
		"skip":       {jobs.Misfire{Policy: jobs.MisfireSkip}, []string{"", "", "", "", "", "", "", "", "missed x9", "ran"}},
		"all":        {jobs.Misfire{Policy: jobs.MisfireAll, Window: 5 * time.Minute}, []string{"", "", "", "missed x4", "ran", "ran", "ran", "ran", "ran", "ran"}},
		"at most":    {jobs.Misfire{Policy: jobs.MisfireAll, Max: 2}, []string{"missed", "missed", "missed", "missed", "missed", "missed", "missed", "ran", "ran", "ran"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given a job of which the ticks 3 to 11 came due while no daemon ran
				c := newCluster()
				j := job("a", "* * * * *", 2*time.Second)
				j.Misfire = tc.misfire
				first := start(t, c.daemon("first"), []jobs.Job{j})
				time.Sleep(2*time.Minute + 30*time.Second)
				first.drain()
				time.Sleep(9 * time.Minute) // 11:30

				// when a daemon comes back
				second := start(t, c.daemon("second"), []jobs.Job{j})
				time.Sleep(time.Minute)
				second.drain()

				// then they end as the policy says, each once
				got := outcomesOf(t, c, "a", minute(3), minute(12), time.Minute)
				require.Equal(t, tc.want, got)
			})
		})
	}
}

func TestADailyTickThatWasMissedRunsSoonAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		list := []jobs.Job{job("a", "0 2 * * *", time.Second)}
		first := start(t, c.daemon("first"), list)
		time.Sleep(25*time.Hour + 59*time.Minute)
		first.drain()
		time.Sleep(5 * time.Minute) // 02:04 of the second day
		second := start(t, c.daemon("second"), list)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, second.stats("a").Ran)
		second.drain()

		time.Sleep(3*24*time.Hour + 30*time.Minute) // and when it is too late, that is recorded
		third := start(t, c.daemon("third"), list)
		time.Sleep(2 * time.Second)
		third.drain()
		requireOnce(t, c, "a", epoch.Add(26*time.Hour), epoch.Add(26*time.Hour), time.Hour, "ran")
		requireOnce(t, c, "a", epoch.Add(98*time.Hour), epoch.Add(98*time.Hour), time.Hour, "missed x3")
		require.Equal(t, 1, third.log.lines("ticks were missed", "ticks=3"))
	})
}

func TestATickThatCannotBeDecidedIsGivenUpWhenItIsTooOld(t *testing.T) {
	for name, tc := range map[string]struct {
		misfire jobs.Misfire
		outage  time.Duration // from shortly before the tick on
		want    string
	}{
		"skip, soon":      {jobs.Misfire{Policy: jobs.MisfireSkip}, 4 * time.Second, "ran"},
		"skip, late":      {jobs.Misfire{Policy: jobs.MisfireSkip}, 30 * time.Second, "undecided"},
		"once, soon":      {jobs.Misfire{}, 9 * time.Minute, "ran"},
		"once, late":      {jobs.Misfire{}, 11 * time.Minute, "undecided"},
		"a wide window":   {jobs.Misfire{Window: 40 * time.Minute}, 30 * time.Minute, "ran"},
		"the next is due": {jobs.Misfire{Window: 3 * time.Hour}, 70 * time.Minute, "undecided"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				l := c.daemon("one")
				j := job("a", "0 * * * *", time.Second)
				j.Misfire = tc.misfire
				d := start(t, l, []jobs.Job{j})
				time.Sleep(2*time.Hour - time.Second)
				l.down()
				time.Sleep(tc.outage)
				l.up()
				time.Sleep(time.Minute)
				d.drain()
				requireOnce(t, c, "a", epoch.Add(2*time.Hour), epoch.Add(2*time.Hour), time.Hour, tc.want)
			})
		})
	}
}

func TestTicksOfAnOutageOfZooKeeperAreMadeUpForIfAllAreWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		l := c.daemon("one")
		j := job("a", "@every 10s", 200*time.Millisecond)
		j.Misfire.Policy = jobs.MisfireAll
		d := start(t, l, []jobs.Job{j})
		time.Sleep(25 * time.Second)
		l.down()
		time.Sleep(5 * time.Minute)
		l.up()
		time.Sleep(30 * time.Second)
		d.drain()
		requireOnce(t, c, "a", sec(10), sec(340), 10*time.Second, "ran")
	})
}

func TestALongAbsenceIsCountedWithoutEnd(t *testing.T) {
	// given a job that was due every second for 30 years
	schedule, err := Parse("* * * * * *", "")
	require.NoError(t, err)

	// then the span is what it is, give or take what was not counted one by one
	span, ok := spanOf(schedule, epoch, epoch.AddDate(30, 0, 0))
	require.True(t, ok)
	require.Equal(t, sec(1), span.First.UTC())
	require.Equal(t, epoch.AddDate(30, 0, 0), span.Last.UTC())
	require.InEpsilon(t, 30*365.25*24*3600, span.Count, 0.01)

	// and none is none
	_, ok = spanOf(schedule, sec(1), sec(1))
	require.False(t, ok)
}

// decidedTicks sums up what a cluster knows of a job: each tick counts once.
func (c *cluster) decidedTicks(t *testing.T, job string) (n int) {
	t.Helper()
	for at, outcomes := range c.outcomes(job) {
		require.Len(t, outcomes, 1, "%s", at)
		many := 1
		if _, count, ok := strings.Cut(outcomes[0], " x"); ok {
			var err error
			many, err = strconv.Atoi(count)
			require.NoError(t, err)
		}
		n += many
	}
	return n
}

func TestEveryTickOfALongOutageIsRecorded(t *testing.T) {
	for name, policy := range map[string]jobs.MisfirePolicy{"once": jobs.MisfireOnce, "all": jobs.MisfireAll, "skip": jobs.MisfireSkip} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// given a job that is due every second, and a ZooKeeper that is silent for an hour
				c := newCluster()
				l := c.daemon("one")
				j := job("a", "@every 1s", 10*time.Millisecond)
				j.Misfire.Policy = policy
				d := start(t, l, []jobs.Job{j})
				time.Sleep(10*time.Second + 500*time.Millisecond)
				l.down()
				time.Sleep(time.Hour)
				l.up()

				// when it is back
				time.Sleep(10 * time.Minute)
				d.drain()

				// then each of the ticks has ended once
				require.Equal(t, 4210, c.decidedTicks(t, "a"))
				require.EqualValues(t, 4210, d.stats("a").Total())
				requireOnce(t, c, "a", sec(4000), sec(4210), time.Second, "ran")
			})
		})
	}
}

func TestEveryTickOfALongSleepIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a machine that sleeps for a day
		c := newCluster()
		var ahead atomic.Int64
		j := job("a", "@every 1s", 10*time.Millisecond)
		d := start(t, c.daemon("one"), []jobs.Job{j}, func(cfg *Config) {
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		time.Sleep(10*time.Second + 500*time.Millisecond)
		ahead.Store(int64(24 * time.Hour))

		// when it wakes up
		time.Sleep(20 * time.Second)
		d.drain()

		// then each tick has ended once
		require.Equal(t, 86430, c.decidedTicks(t, "a"))
		require.EqualValues(t, 86430, d.stats("a").Total())
		require.Equal(t, 1, d.log.lines("too far forward"))
		requireOnce(t, c, "a", sec(86415), sec(86430), time.Second, "ran")
	})
}
