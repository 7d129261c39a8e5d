package assignment_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

func TestLimitedMovesComeToTheSameEnd(t *testing.T) {
	for _, name := range []string{"balanced", "weighted", "mod", "rendezvous"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 3
			churn(t, name, declares{holders: 3, limit: 20}, func(h *history, _ []string, previous assignment.Assignment) {
				all := gains(previous, h.current)
				moved, at := 0, previous
				for range 1000 {
					next := h.assign(at)
					limited, held := assignment.LimitMoves(at, next, h.live, h.hints, limit)
					require.NoError(h, assignment.Validate(limited, h.locks, h.live, h.hints))
					voluntary := 0
					for _, move := range assignment.Moves(at, limited) {
						if slices.Contains(h.live, move.From) && move.To != "" {
							voluntary++
						}
					}
					if h.hints.Limit == 0 { // otherwise room may have to be made
						require.LessOrEqual(h, voluntary, limit)
					}
					moved += gains(at, limited)
					at = limited
					if len(held) == 0 {
						break
					}
				}
				require.Equal(h, at, h.assign(at), "it has come to an end")
				require.Equal(h, all, moved, "and moved no more than at once")
			})
		})
	}
}

func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a1]{0,3}(_0{0,2}[0-9]{0,3})?[b2]{0,2}`)
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		require.Equal(t, a == b, assignment.Compare(a, b) == 0)
		require.Equal(t, assignment.Compare(a, b), -assignment.Compare(b, a))
		if assignment.Compare(a, b) <= 0 && assignment.Compare(b, c) <= 0 {
			require.LessOrEqual(t, assignment.Compare(a, c), 0)
		}
	})
}
