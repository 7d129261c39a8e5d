package scheduler

import (
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
