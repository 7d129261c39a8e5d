package groups

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// quiet does nothing with its locks.
type quiet struct{}

func (quiet) OnLocked(context.Context, recipes.LockGrant) {}
func (quiet) OnReleased(context.Context, string)          {}
func (quiet) OnDropped(context.Context, string)           {}

// A growth is what it costs when an eleventh participant joins ten.
type growth struct {
	spread time.Duration // from the first join until the ten had all locks
	took   time.Duration // from the eleventh's join until all was in place
	round  recipes.GroupRoundDone
	writes int64 // transactions of ZooKeeper, all in all
}

func (h *house) grow(s recipes.GroupSpec) (g growth) {
	t := h.t
	t.Helper()
	var members []*recipes.Member
	rounds := make(chan recipes.GroupRoundDone, 100)
	join := func(name string) {
		t.Helper()
		g, err := h.client().Group(s, recipes.GroupOptions{Notify: func(n recipes.GroupNotice) {
			if n, ok := n.(recipes.GroupRoundDone); ok {
				rounds <- n
			}
		}})
		require.NoError(t, err)
		m, err := g.Join(context.Background(), name, quiet{})
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			require.NoError(t, m.Leave(ctx))
		})
		members = append(members, m)
	}
	spread := func() {
		t.Helper()
		least := len(s.Locks) / len(members)
		for deadline := time.Now().Add(2 * soon); ; <-time.After(2 * time.Millisecond) {
			total, fair := 0, true
			for _, m := range members {
				n := len(m.Locks())
				fair = fair && n >= least && n <= least+1
				total += n
			}
			if fair && total == len(s.Locks) {
				return
			}
			if time.Now().After(deadline) {
				require.FailNow(t, "the locks are not spread", "%d are held", total)
			}
		}
	}

	// given 10 participants, each with a session of its own
	start := time.Now()
	for i := range 10 {
		join(fmt.Sprint("node", i))
	}
	spread()
	g.spread = time.Since(start)
	for len(rounds) > 0 {
		<-rounds
	}

	// when another one joins
	shell := h.shell()
	before := h.zxid(shell)
	start = time.Now()
	join("node10")
	spread()
	g.took = time.Since(start)
	for g.round.Moves == 0 {
		g.round = <-rounds
	}
	g.writes = h.zxid(shell) - before - 1
	return g
}

func (g growth) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("10 participants have all %s after the first came; an 11th joins: %d moves, all in place %s after the join began (the debounce, %s, and the round, %s, included); %d transactions of ZooKeeper",
		ms(g.spread), g.round.Moves, ms(g.took), recipes.DefaultGroupDebounce, ms(g.round.Took), g.writes)
}

func TestThousandLocksOverTenParticipantsMoveNinetyWhenOneJoins(t *testing.T) {
	t.Parallel()
	for strategy, moves := range map[string][2]int{"balanced": {90, 90}, "mod": {900, 910}} {
		t.Run(strategy, func(t *testing.T) {
			h := ownHouse(t)
			g := h.grow(spec(1000, func(s *recipes.GroupSpec) { s.Strategy = strategy }))
			t.Logf("1,000 locks, %s: %s", strategy, g)
			require.GreaterOrEqual(t, g.round.Moves, moves[0])
			require.LessOrEqual(t, g.round.Moves, moves[1])
			require.LessOrEqual(t, g.writes, int64(32))
		})
	}
}

func BenchmarkGroupThatGrows(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("%d locks", n), func(b *testing.B) {
			for range b.N {
				h := ownHouse(b)
				g := h.grow(spec(n))
				b.Log(g)
				b.ReportMetric(float64(g.round.Moves), "moves")
				b.ReportMetric(float64(g.writes), "transactions")
				b.ReportMetric(g.took.Seconds(), "s/join")
			}
		})
	}
}
