package scheduler

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

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
		bubble(t, name, func(t *testing.T, c *cluster) {
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
	}
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
		bubble(t, name, func(t *testing.T, c *cluster) {
			// given a job that is due every second, and a ZooKeeper that is silent for an hour
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
	}
}

func TestEveryTickOfALongSleepIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		// given a machine that sleeps for a day
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

		// and a daemon whose clock is right says what it finds
		right := start(t, c.daemon("two"), []jobs.Job{j})
		time.Sleep(5 * time.Second)
		right.drain()
		require.Equal(t, 1, right.log.lines("a daemon whose clock was ahead"))
		requireOnce(t, c, "a", sec(86415), sec(86430), time.Second, "ran")
	})
}

func TestATickIsMissedWhenItIsOlderThanItsWindow(t *testing.T) {
	const lateness, window = 5 * time.Second, time.Minute
	const jitter = 30 * time.Second
	cases := map[string]struct {
		policy jobs.MisfirePolicy
		jitter time.Duration
		age    time.Duration // since it was due, with its jitter
		newer  int           // ticks that are due as well
		want   bool
	}{
		"skip, not late yet":         {jobs.MisfireSkip, 0, lateness, 9, false},
		"skip, late":                 {jobs.MisfireSkip, 0, lateness + 1, 0, true},
		"once, as old as its window": {jobs.MisfireOnce, 0, window, 0, false},
		"once, older":                {jobs.MisfireOnce, 0, window + 1, 0, true},
		"once, held back, as old":    {jobs.MisfireOnce, jitter, window, 0, false},
		"once, held back, older":     {jobs.MisfireOnce, jitter, window + 1, 0, true},
		"once, not the newest":       {jobs.MisfireOnce, 0, lateness + 1, 1, true},
		"all, as old as its window":  {jobs.MisfireAll, 0, window, 2, false},
		"all, older":                 {jobs.MisfireAll, 0, window + 1, 0, true},
		"all, too many newer ones":   {jobs.MisfireAll, 0, window, 3, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := job("a", "@every 10m", 0)
			j.Misfire, j.Jitter = jobs.Misfire{Policy: tc.policy, Window: window, Max: 3}, tc.jitter
			def := &definition{Job: j, schedule: mustParseJob(t, j)}
			now := noon.Add(jitterOf("a", noon, tc.jitter) + tc.age)
			s, err := New(Config{Ledger: newCluster().daemon("one"), Lateness: lateness, Now: func() time.Time { return now }})
			require.NoError(t, err)
			require.Equal(t, tc.want, newLane(s, def).isMissed(def, noon, tc.newer))
		})
	}
}

func TestTicksThatJitterHoldsBackAreMadeUpForByTheTimeTheyWereHeldBackTo(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		// given a job with much jitter, and no daemon for half an hour
		j := job("a", "@every 1m", time.Second)
		j.Jitter, j.Misfire = 8*time.Minute, jobs.Misfire{Policy: jobs.MisfireAll, Window: 12 * time.Minute}
		first := start(t, c.daemon("first"), []jobs.Job{j})
		time.Sleep(15 * time.Minute)
		first.drain()
		decided := c.of("a").last
		time.Sleep(30 * time.Minute)

		// when one comes back
		back := time.Now()
		second := start(t, c.daemon("second"), []jobs.Job{j})
		time.Sleep(15 * time.Minute)
		second.drain()

		// then those run that have been due for no longer than the window, and the others are missed
		var want, got []string
		for at, due := decided.Add(time.Minute), decided; !at.After(minute(45)); at = at.Add(time.Minute) {
			due = later(due, at.Add(jitterOf("a", at, j.Jitter))) // none overtakes an older one
			outcome := "ran"
			if due.Add(j.Misfire.Window).Before(back) {
				outcome = "missed"
			}
			want = append(want, outcome)
		}
		missed := 0
		for _, outcome := range outcomesOf(t, c, "a", decided.Add(time.Minute), minute(45), time.Minute) {
			if outcome == "" || strings.HasPrefix(outcome, "missed") {
				outcome = "missed" // with others, as one span
				missed++
			}
			got = append(got, outcome)
		}
		require.Equal(t, want, got)
		require.Greater(t, len(want)-missed, 12, "some of them are older than the window")
	})
}
