package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// emitted is a feed of which a test moves the clock.
type emitted struct {
	feed
	instants []time.Time
	at       []time.Time // when each one was emitted
	gaps     [][2]time.Time
	now      time.Time
	again    time.Time // when it wants to be called
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newEmitted(t *testing.T, spec string, jitter time.Duration) *emitted {
	e := &emitted{now: noon}
	e.feed = feed{
		job: "report", schedule: mustParse(t, spec, ""), jitter: jitter,
		emit: func(instants []time.Time) {
			for _, at := range instants {
				e.instants = append(e.instants, at)
				e.at = append(e.at, e.now)
			}
		},
		dropped: func(after, before time.Time) { e.gaps = append(e.gaps, [2]time.Time{after, before}) },
	}
	e.look(0)
	return e
}

// look moves the clock and calls the feed.
func (e *emitted) look(by time.Duration) {
	e.now = e.now.Add(by)
	e.again = e.next(e.now)
}

// until calls the feed whenever it wants to be.
func (e *emitted) until(end time.Time) {
	for !e.again.IsZero() && !e.again.After(end) {
		e.look(e.again.Sub(e.now))
	}
}

// minutes returns the minutes after noon of the instants.
func (e *emitted) minutes() (all []float64) {
	for _, at := range e.instants {
		all = append(all, at.Sub(noon).Minutes())
	}
	return all
}

func TestAFeedOfAScheduleThatIsReplacedLosesAndRepeatsNothing(t *testing.T) {
	cases := []struct {
		name string
		play func(e *emitted, hourly, at10 Schedule)
		want []float64
	}{
		{"what was due before is of the old one", func(e *emitted, _, at10 Schedule) {
			e.look(4 * time.Minute)
			e.replace(at10, 0)
			e.look(3 * time.Minute) // the 5th minute of the old one has come meanwhile
			e.until(noon.Add(25 * time.Minute))
		}, []float64{5, 10, 20}},
		{"an instant of both comes once", func(e *emitted, _, at10 Schedule) {
			e.until(noon.Add(10 * time.Minute))
			e.replace(at10, 0)
			e.look(0)
			e.until(noon.Add(20 * time.Minute))
		}, []float64{5, 10, 20}},
		{"what the new one says about the past was never due", func(e *emitted, hourly, at10 Schedule) {
			e.replace(hourly, 0)
			e.look(0)
			e.look(35 * time.Minute)
			e.replace(at10, 0)
			e.look(0)
			e.until(noon.Add(60 * time.Minute))
		}, []float64{40, 50, 60}},
		{"the last one that is given counts", func(e *emitted, hourly, at10 Schedule) {
			e.replace(at10, 0)
			e.replace(hourly, 0)
			e.look(0)
			e.until(noon.Add(60 * time.Minute))
		}, []float64{60}},
		{"a clock that was put back repeats nothing", func(e *emitted, _, at10 Schedule) {
			e.until(noon.Add(10 * time.Minute))
			e.look(-8 * time.Minute)
			e.replace(at10, 0)
			e.look(0)
			e.until(noon.Add(20 * time.Minute))
		}, []float64{5, 10, 20}},
		{"none any more", func(e *emitted, _, _ Schedule) {
			e.replace(Manual(), 0)
			e.look(6 * time.Minute)
			e.until(noon.Add(time.Hour))
		}, []float64{5}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// given
			e := newEmitted(t, "*/5 * * * *", 0)

			// when
			c.play(e, mustParse(t, "0 * * * *", ""), mustParse(t, "*/10 * * * *", ""))

			// then
			require.Equal(t, c.want, e.minutes())
			require.Empty(t, e.gaps)
		})
	}
}

func TestJitterDelaysTicksInOrderAndDoesNotChangeThem(t *testing.T) {
	for _, jitter := range []time.Duration{20 * time.Second, time.Minute, 10 * time.Minute} {
		t.Run(jitter.String(), func(t *testing.T) {
			// given
			e := newEmitted(t, "* * * * *", jitter)

			// when
			e.until(noon.Add(24*time.Hour + jitter))

			// then: each minute once, in order, as soon as its own delay and its
			// elders let it
			require.GreaterOrEqual(t, len(e.instants), 24*60)
			var earliest time.Time
			for i, instant := range e.instants {
				require.Equal(t, noon.Add(time.Duration(i+1)*time.Minute), instant)
				if own := instant.Add(jitterOf("report", instant, jitter)); own.After(earliest) {
					earliest = own
				}
				require.Equal(t, earliest, e.at[i])
			}
		})
	}
}

func TestJitterIsSpreadEvenlyAndTheSameForEver(t *testing.T) {
	// given
	const upTo = 10 * time.Minute
	parts := make([]int, 10)

	// when
	for i := range 10_000 {
		d := jitterOf("report", noon.Add(time.Duration(i)*time.Minute), upTo)
		if d < 0 || d >= upTo {
			t.Fatalf("tick %d is late by %s", i, d)
		}
		parts[d/time.Minute]++
	}

	// then
	for _, n := range parts {
		require.InDelta(t, 1000, n, 150)
	}
	require.Equal(t, jitterOf("report", noon, upTo), jitterOf("report", noon.In(time.FixedZone("", 3600)), upTo))
	require.NotEqual(t, jitterOf("report", noon, upTo), jitterOf("backup", noon, upTo))
	require.Equal(t, "2m12.3s", jitterOf("report", noon, upTo).Round(100*time.Millisecond).String(), "other versions of the program must agree")
	require.Zero(t, jitterOf("report", noon, 0))
}

func TestABacklogIsEmittedWithoutRepetition(t *testing.T) {
	cases := []struct {
		name    string
		seconds int // that the clock jumps
		want    int
		gap     bool
	}{
		{"as much as is emitted at once", maxBacklog, maxBacklog, false},
		{"a little more", maxBacklog + 10, maxBacklog, true},
		{"far more", 10 * maxBacklog, maxBacklog, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// given
			e := newEmitted(t, "* * * * * *", 0)

			// when
			e.look(time.Duration(c.seconds) * time.Second)

			// then
			require.Len(t, e.instants, c.want)
			for i := 1; i < len(e.instants); i++ {
				require.True(t, e.instants[i].After(e.instants[i-1]))
			}
			require.Equal(t, e.now, e.instants[len(e.instants)-1])
			require.Equal(t, c.gap, len(e.gaps) == 1)
			if c.gap { // which begins where nothing was emitted, and ends with the first instant that is
				require.Equal(t, [2]time.Time{noon, e.instants[0]}, e.gaps[0])
			}
		})
	}
}

func TestTheNewestInstantsAreFoundWhereverTheyAre(t *testing.T) {
	second := interval{seconds: 1}
	busy := while{from: noon, to: noon.Add(time.Hour), schedule: second} // and then nothing
	cases := map[string]struct {
		schedule Schedule
		until    time.Time
		n        int
		more     bool
	}{
		"few":                           {second, noon.Add(10 * time.Second), 10, false},
		"many":                          {second, noon.AddDate(1, 0, 0), 100, true},
		"all in the far past":           {busy, noon.AddDate(1, 0, 0), 100, true},
		"none":                          {busy, noon, 0, false},
		"some more than are wanted":     {second, noon.Add(150 * time.Second), 100, true},
		"exactly those that are wanted": {second, noon.Add(100 * time.Second), 100, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			due, more := newest(c.schedule, noon, c.until, 100)
			require.Equal(t, c.more, more)
			require.LessOrEqual(t, len(due), 100)
			if c.n == 0 {
				require.Empty(t, due)
				return
			}
			last := due[len(due)-1]
			require.True(t, c.schedule.Next(last).IsZero() || c.schedule.Next(last).After(c.until))
			for i := 1; i < len(due); i++ {
				require.True(t, due[i].Equal(c.schedule.Next(due[i-1])))
			}
			require.GreaterOrEqual(t, len(due), c.n/2)
		})
	}
}

// while is a schedule that is due for a while only.
type while struct {
	from, to time.Time
	schedule Schedule
}

func (w while) Next(after time.Time) time.Time {
	if at := w.schedule.Next(after); !at.Before(w.from) && !at.After(w.to) {
		return at
	}
	return time.Time{}
}

func (w while) String() string { return "for a while" }
