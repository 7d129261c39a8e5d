package priority_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestQueueIsOrderedByLevelThenSequence(t *testing.T) {
	for _, c := range []struct {
		name string
		p, q priority.Place
		want bool
	}{
		{"higher level, earlier", priority.Place{Level: 2, Sequence: 1}, priority.Place{Level: 1, Sequence: 2}, true},
		{"higher level, later", priority.Place{Level: 2, Sequence: 9}, priority.Place{Level: 1, Sequence: 2}, true},
		{"lower level, earlier", priority.Place{Level: 1, Sequence: 1}, priority.Place{Level: 2, Sequence: 2}, false},
		{"same level, earlier", priority.Place{Level: 1, Sequence: 1}, priority.Place{Level: 1, Sequence: 2}, true},
		{"same level, later", priority.Place{Level: 1, Sequence: 2}, priority.Place{Level: 1, Sequence: 1}, false},
		{"same place", priority.Place{Level: 1, Sequence: 1}, priority.Place{Level: 1, Sequence: 1}, false},
		{"digits are numbers", priority.Place{Sequence: 9}, priority.Place{Sequence: 10}, true},
		{"before the wrap", priority.Place{Sequence: math.MaxInt32}, priority.Place{Sequence: math.MinInt32}, true},
		{"after the wrap", priority.Place{Sequence: math.MinInt32}, priority.Place{Sequence: math.MaxInt32}, false},
		{"from below zero", priority.Place{Sequence: -1}, priority.Place{Sequence: 0}, true},
		{"widest window", priority.Place{Sequence: 0}, priority.Place{Sequence: math.MaxInt32}, true},
		{"widest window, wrapped", priority.Place{Sequence: 1}, priority.Place{Sequence: math.MinInt32}, true},
		{"emergency over default", priority.Place{Level: priority.Emergency, Sequence: 9}, priority.Place{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.p.Before(c.q))
		})
	}
}

// Places whose sequences were given out within a window shorter than 2³¹ have
// one order, wherever the window begins.
func TestQueueOrderIsAStrictWeakOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int32().Draw(t, "first sequence of the window")
		type waiter struct {
			priority.Place
			arrival int32 // in the window
		}
		draw := rapid.Custom(func(t *rapid.T) waiter {
			arrival := rapid.Int32Range(0, math.MaxInt32).Draw(t, "arrival")
			level := priority.Level(rapid.Int32Range(0, 2).Draw(t, "level"))
			return waiter{priority.Place{Level: level, Sequence: first + arrival}, arrival}
		})
		p, q, r := draw.Draw(t, "p"), draw.Draw(t, "q"), draw.Draw(t, "r")

		require.False(t, p.Before(p.Place), "irreflexive")
		require.False(t, p.Before(q.Place) && q.Before(p.Place), "asymmetric")
		if p.Before(q.Place) && q.Before(r.Place) {
			require.True(t, p.Before(r.Place), "transitive")
		}
		require.Equal(t, p.Place == q.Place, !p.Before(q.Place) && !q.Before(p.Place), "only the same place is neither before nor after")

		queue := []waiter{p, q, r}
		slices.SortFunc(queue, func(a, b waiter) int {
			switch {
			case a.Before(b.Place):
				return -1
			case b.Before(a.Place):
				return 1
			}
			return 0
		})
		require.True(t, slices.IsSortedFunc(queue, func(a, b waiter) int {
			if a.Level != b.Level {
				return int(b.Level - a.Level)
			}
			return int(a.arrival) - int(b.arrival)
		}), "higher levels first, then first come first served: %v", queue)
	})
}
