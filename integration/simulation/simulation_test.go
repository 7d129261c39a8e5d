package simulation

import (
	"cmp"
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What make simulate sets.
var (
	daemons = flag.Int("daemons", 10, "how many daemons TestSimulation has")
	number  = flag.Int("jobs", 1000, "how many jobs it has")
	window  = flag.Duration("window", 2*time.Minute, "how long ticks are counted, in virtual time")
	starts  = flag.Duration("starts", 0, "how long after each other daemons start; 0: as long as the modelled ZooKeeper needs for the jobs of one")
	copies  = flag.Int("copies", 2, "how many daemons have each job")
	sharing = flag.Int("sharing", 100, "one in so many jobs shares a lock with nine others, each minute")
	jitter  = flag.Duration("jitter", 0, "of each job")
	rate    = flag.Int("rate", 10_000, "how many writes a second the modelled ZooKeeper does")
	often   = flag.String("schedule", "H H/5 * * * *", "of each job")
)

func ensemble(rate int) *Ensemble {
	return &Ensemble{RoundTrip: 500 * time.Microsecond, Flush: time.Millisecond, Rate: rate}
}

// make simulate runs this one with a large site.
func TestSimulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simulate(t, plan{
			daemons: *daemons, jobs: *number, copies: *copies, schedule: *often, jitter: *jitter, ownLock: 10, sharedLock: *sharing,
			window: *window, starts: cmp.Or(*starts, apart()), ensemble: ensemble(*rate),
		})
		t.Log("\n" + r.String())
		requireOnce(t, r)
	})
}

// apart is how long a daemon's first look at its jobs takes, at four writes a job.
func apart() time.Duration {
	return max(50*time.Millisecond, time.Duration(4**number**copies)*time.Second/time.Duration(*rate**daemons))
}

// requireOnce: each tick that was due has begun exactly once, and no two ran
// under one lock.
func requireOnce(t *testing.T, r report) {
	t.Helper()
	require.Positive(t, r.ticks)
	require.Equal(t, r.expected, r.ticks)
	require.Zero(t, r.doubled, "ticks that ran twice")
	require.Zero(t, r.faults, "two holders at once")
}

func TestPlainTickCostsTwoWrites(t *testing.T) {
	for copies := 1; copies <= 3; copies++ {
		synctest.Test(t, func(t *testing.T) {
			r := simulate(t, plan{
				daemons: 5, jobs: 100, copies: copies, schedule: "H H/2 * * * *",
				window: 20 * time.Minute, starts: time.Second, ensemble: ensemble(10_000),
			})
			t.Log("\n" + r.String())
			requireOnce(t, r)
			// One claims the tick and records its end; each other one learns from a
			// write that is refused that it is taken.
			require.InDelta(t, 1+copies, r.writesPerTick(), 0.2, "writes of a tick with %d daemons", copies)
		})
	}
}
