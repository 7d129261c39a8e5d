package groups

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
)

// quiet does nothing with its locks.
type quiet struct{}

func (quiet) OnLocked(context.Context, group.LockGrant) {}
func (quiet) OnReleased(context.Context, string)        {}
func (quiet) OnDropped(context.Context, string)         {}

// A growth is what it costs when an eleventh participant joins ten.
type growth struct {
	spread time.Duration // from the first join until the ten had all locks
	took   time.Duration // from the eleventh's join until all was in place
	moves  int
	round  time.Duration
	writes int64 // transactions of ZooKeeper, all in all
}

func (f *fixture) grow(s group.Spec) (g growth) {
	f.Helper()
	rounds := harness.NewNotices[group.Notice](f.History, "the group")
	var members []*group.Member
	join := func() {
		f.Helper()
		g, err := group.New(f.client().Client, s, group.Options{Notify: rounds.Add})
		require.NoError(f, err)
		m, err := g.Join(context.Background(), fmt.Sprint("node", len(members)), quiet{})
		require.NoError(f, err)
		f.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			require.NoError(f, m.Leave(ctx))
		})
		members = append(members, m)
	}
	// A round is reported after its last lock is in place.
	settled := func() (last group.RoundDone) {
		f.Helper()
		least := len(s.Locks) / len(members)
		harness.Eventually(f, func() bool {
			total := 0
			for _, m := range members {
				n := len(m.Locks())
				if n < least || n > least+1 {
					return false
				}
				total += n
			}
			return total == len(s.Locks)
		}, "the locks are not spread")
		generation := f.state().Generation
		for last.Generation < generation {
			last = harness.Await[group.RoundDone](f, rounds)
		}
		return last
	}

	// given 10 participants, each with a session of its own
	start := time.Now()
	for range 10 {
		join()
	}
	settled()
	g.spread = time.Since(start)

	// when another one joins
	before := f.zxid()
	start = time.Now()
	join()
	round := settled()
	g.took, g.moves, g.round = time.Since(start), round.Moves, round.Took
	g.writes = f.zxid() - before
	if f.zk == nil {
		g.writes-- // the last one is that of zxid
	}
	return g
}

// zxid returns the number of the server's last transaction. A real server is made to do one.
func (f *fixture) zxid() int64 {
	f.Helper()
	if f.zk != nil {
		return f.zk.Zxid()
	}
	_, stat := f.Get(f.Create("/zxid-", nil, zk.FlagSequence))
	return stat.Czxid
}

func (g growth) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("10 participants have all %s after the first came; an 11th joins: %d moves, all in place %s after the join began (the debounce, %s, and the round, %s, included); %d transactions of ZooKeeper",
		ms(g.spread), g.moves, ms(g.took), group.DefaultDebounce, ms(g.round), g.writes)
}

func TestThousandLocksOverTenParticipantsMoveNinetyWhenOneJoins(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string][2]int{"balanced": {90, 90}, "mod": {900, 910}} {
		t.Run(name, func(t *testing.T) {
			g := alone(t).grow(spec(1000, strategy(name)))
			t.Logf("1,000 locks, %s: %s", name, g)
			require.GreaterOrEqual(t, g.moves, moves[0])
			require.LessOrEqual(t, g.moves, moves[1])
		})
	}
}

// Not on the clock of the machine: a participant with little of a processor releases its locks one after the other, and
// writes while it does.
func TestLocksThatMoveAtTheSameTimeAreWrittenTogether(t *testing.T) {
	virtually(t, func(t *testing.T, f *fixture) {
		g := f.grow(spec(1000, strategy("mod")))
		t.Logf("1,000 locks: %s", g)
		require.GreaterOrEqual(t, g.moves, 900)
		require.LessOrEqual(t, g.writes, int64(20))
	})
}

func BenchmarkGroupThatGrows(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("%d locks", n), func(b *testing.B) {
			for range b.N {
				g := alone(b).grow(spec(n))
				b.Log(g)
				b.ReportMetric(float64(g.moves), "moves")
				b.ReportMetric(float64(g.writes), "transactions")
				b.ReportMetric(g.took.Seconds(), "s/join")
			}
		})
	}
}
