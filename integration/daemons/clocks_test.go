package daemons

import (
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

var (
	clocksFor  = flag.Duration("clocks", 8*time.Second, "how long daemons with wrong clocks run")
	clocksJobs = flag.Int("clocks-jobs", 10, "how many jobs they run")
)

// clockBound is by how much a tick may run early: what the ledger tolerates, and what
// two readings of one clock may differ by.
const clockBound = ticks.Tolerance + 10*time.Millisecond

// Given five daemons with many jobs a second, one of them with a clock that is
// a day ahead, others 90 s ahead and behind, one whose clock jumps forward and back,
// and one that is right, then no tick runs twice, none earlier than the bound, and each
// that does not run is recorded with its reason. When the wrong ones are gone, the
// one that is right goes on with the very next ticks.
func TestDaemonsWithWrongClocksHarmNoTick(t *testing.T) {
	length, many := *clocksFor, *clocksJobs
	server, root := shared.Server(t), zkserver.Root(t)
	story := newChronicle(t)
	begin := func(name string, skew time.Duration, jumps ...jump) *child {
		return startChild(t, story, settings{
			Name: name, ZK: server.Connect(), Root: root, Session: session, Drain: 2 * time.Second, Jobs: many,
			Skew: skew, Jumps: jumps,
		})
	}
	right := begin("right", 0)
	harness.Eventually(t, func() bool { return story.count(began) > 0 }, "the right one runs jobs")
	wrong := map[string]*child{
		"day-ahead": begin("day-ahead", 24*time.Hour),
		"ahead":     begin("ahead", 90*time.Second),
		"behind":    begin("behind", -90*time.Second),
		"jumps":     begin("jumps", 0, jump{length / 3, 6 * time.Hour}, jump{2 * length / 3, -10 * time.Minute}),
	}

	// when they run together, and then the right one alone
	wait(t, length)
	for _, d := range wrong {
		d.log.await(0, "level=WARN", "this machine's clock is", "remedy")
	}
	for _, d := range wrong {
		d.signal(syscall.SIGTERM)
	}
	for _, d := range wrong {
		require.NoError(t, d.wait())
	}
	alone := time.Now()
	ledger := reader(t, settings{ZK: server.Connect(), Root: root, Session: session})
	for i := range many {
		harness.Eventually(t, func() bool { return ledger.state(jobName(i)).Last.After(alone) }, "the right one goes on")
	}
	right.end(syscall.SIGTERM)
	require.Empty(t, right.log.lines(0, "this machine's clock is"))

	// then
	begun := tallyOf(story.all())
	skips, ticks, gone := map[string]int64{}, int64(0), time.Now()
	for i := range many {
		state := ledger.state(jobName(i))
		require.Zero(t, state.Ahead, state.Job)
		require.False(t, state.Last.After(gone.Add(clockBound)), "%s is decided up to %s", state.Job, state.Last)
		ticks += begun.balance(t, state)
		for reason, n := range state.Counts.Skipped {
			skips[reason] += n
		}
	}
	t.Logf("%s: %d ticks, %d runs, skipped: %s; the earliest %s before it was due, the latest %s after",
		length, ticks, begun.runs, describe(skips), -begun.earliest, begun.latest)
	require.Empty(t, begun.twice)
	require.Empty(t, begun.early)
	for reason := range skips { // of a machine that is too slow
		require.Contains(t, []string{"missed", "undecided", "overlap", "lock", "unavailable", "draining"}, reason)
	}
	require.Positive(t, begun.runs)
}
