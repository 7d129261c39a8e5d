package daemons

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var clocksFor = flag.Duration("clocks", 20*time.Second, "how long daemons with wrong clocks run")

// clockBound is by how much a tick may run early: what the ledger tolerates, and what
// two readings of one clock may differ by.
const clockBound = recipes.TickTolerance + 10*time.Millisecond

// A punctuality is when ticks have begun, by the clock of the test's machine.
type punctuality struct {
	begun            map[string]map[time.Time]int // by job and instant
	runs             int
	twice, early     []string
	earliest, latest time.Duration // how late they were; negative: early
	lastOf           map[string]time.Time
	earliestOf       map[string]time.Duration // by daemon
	runsOf           map[string]int           // likewise
}

func punctualityOf(marks []mark) punctuality {
	p := punctuality{begun: map[string]map[time.Time]int{}, lastOf: map[string]time.Time{}, earliestOf: map[string]time.Duration{}, runsOf: map[string]int{}}
	for _, m := range marks {
		if m.What != began {
			continue
		}
		if p.begun[m.Job] == nil {
			p.begun[m.Job] = map[time.Time]int{}
		}
		instant := m.Instant.UTC()
		if p.begun[m.Job][instant]++; p.begun[m.Job][instant] > 1 {
			p.twice = append(p.twice, m.String())
		}
		p.runs++
		late := m.At.Sub(m.Instant)
		if late < -clockBound {
			p.early = append(p.early, m.String())
		}
		p.earliest, p.latest = min(p.earliest, late), max(p.latest, late)
		p.earliestOf[m.Daemon] = min(p.earliestOf[m.Daemon], late)
		p.runsOf[m.Daemon]++
		if m.At.After(p.lastOf[m.Job]) {
			p.lastOf[m.Job] = m.At
		}
	}
	return p
}

// Given five daemons with two hundred jobs a second, one of them with a clock that is
// a day ahead, others 90 s ahead and behind, one whose clock jumps forward and back,
// and one that is right, then no tick runs twice, none earlier than the bound, and each
// that does not run is recorded with its reason. When the wrong ones are gone, the
// one that is right goes on with the very next ticks.
func TestDaemonsWithWrongClocksHarmNoTick(t *testing.T) {
	length := *clocksFor
	server, root := shared.Server(t), zkserver.Root(t)
	story := newChronicle(t)
	begin := func(name string, skew time.Duration, jumps ...jump) *child {
		return startChild(t, story, settings{
			Name: name, ZK: server.Connect(), Root: root, Session: session, Drain: 2 * time.Second, Cast: "soak 200", Skew: skew, Jumps: jumps,
		})
	}
	right := begin("right", 0)
	story.await("the right one runs all jobs", func(marks []mark) bool { return len(punctualityOf(marks).lastOf) == 200 })
	wrong := map[string]*child{
		"day-ahead": begin("day-ahead", 24*time.Hour),
		"ahead":     begin("ahead", 90*time.Second),
		"behind":    begin("behind", -90*time.Second),
		"jumps":     begin("jumps", 0, jump{length / 3, 6 * time.Hour}, jump{2 * length / 3, -10 * time.Minute}),
	}

	// when they run together, and then the right one alone
	wait(t, length)
	for name, d := range wrong {
		require.NotEmpty(t, d.log.lines("level=WARN", "this machine's clock is", "remedy"), name)
		d.terminate()
	}
	for _, d := range wrong {
		require.NoError(t, d.wait())
	}
	alone := time.Now()
	wait(t, max(8*time.Second, length/10))
	story.await("the right one goes on with all jobs", func(marks []mark) bool {
		p := punctualityOf(where(marks, func(m mark) bool { return m.Daemon == "right" && m.At.After(alone.Add(2*time.Second)) }))
		return len(p.lastOf) == 200
	})
	require.NoError(t, right.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, right.wait())
	require.Empty(t, right.log.lines("this machine's clock is"))

	// then
	p := punctualityOf(story.all())
	ledger := reader(t, settings{ZK: server.Connect(), Root: root, Session: session})
	skips, ticks, gone := map[string]int64{}, int64(0), time.Now()
	for i := range 200 {
		name := fmt.Sprintf("soak-%03d", i)
		state := ledger.state(name)
		require.Zero(t, state.Ahead, name)
		require.False(t, state.Last.After(gone.Add(clockBound)), "%s is decided up to %s", name, state.Last)
		instants := int64(state.Last.Sub(state.Begins)/time.Second) + 1
		require.Equal(t, instants, state.Counts.Total()+int64(len(state.Runs)+len(state.Waiting)), "%s: %+v", name, state.Counts)
		ticks += instants
		for reason, n := range state.Counts.Skipped {
			skips[reason] += n
		}
	}
	lost := ticks - int64(p.runs)
	t.Logf("%s: %d ticks, %d runs, %d lost (%s), %d twice, %d early; the earliest %s before it was due, the latest %s after",
		length, ticks, p.runs, lost, describe(skips), len(p.twice), len(p.early), -p.earliest, p.latest)
	for name, n := range p.runsOf {
		t.Logf("  %-9s ran %d, the earliest %s before it was due", name, n, -p.earliestOf[name])
	}
	require.Empty(t, p.twice)
	require.Empty(t, p.early)
	for reason := range skips { // of a machine that is too slow
		require.Contains(t, []string{"missed", "undecided", "overlap", "lock", "unavailable", "draining"}, reason)
	}
	require.Greater(t, int64(p.runs), ticks/10, "the machine is too slow for this to say anything")
}
