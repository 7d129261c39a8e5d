package assignment_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// A history is a group of which members come and go.
type history struct {
	*rapid.T

	strategy assignment.Strategy
	locks    []string
	hints    assignment.Hints
	live     []string
	current  assignment.Assignment
}

// What a history of a strategy may declare.
type declares struct {
	holders, limit       int
	weights, pins, zones bool
}

// each plays random histories of strategies, see churn.
func each(t *testing.T, strategies []string, d declares, look func(h *history, before []string, previous assignment.Assignment)) {
	t.Helper()
	for _, name := range strategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			churn(t, name, d, look)
		})
	}
}

var levelling = []string{"balanced", "sticky", "weighted", "rendezvous"}

// churn plays a random history and looks at every turn: before and after are
// the members that were and are live.
func churn(t *testing.T, name string, d declares, look func(h *history, before []string, previous assignment.Assignment)) {
	t.Helper()
	strategy := named(t, name)
	rapid.Check(t, func(t *rapid.T) {
		h := &history{T: t, strategy: strategy, locks: names("lock", rapid.IntRange(1, 40).Draw(t, "locks"))}
		pool := names("member", 9)
		h.hints.Holders = rapid.IntRange(min(1, d.holders), d.holders).Draw(t, "holders")
		h.hints.Limit = rapid.IntRange(0, d.limit).Draw(t, "limit")
		if d.weights {
			h.hints.Weights = rapid.MapOf(rapid.SampledFrom(pool), rapid.Float64Range(0, 5)).Draw(t, "weights")
		}
		if d.pins {
			h.hints.Pins = rapid.MapOf(rapid.SampledFrom(h.locks), rapid.SampledFrom(pool)).Draw(t, "pins")
		}
		if d.zones {
			h.hints.Zones = rapid.MapOf(rapid.SampledFrom(pool), rapid.SampledFrom([]string{"x", "y", "z"})).Draw(t, "zones")
		}
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			before, previous := h.live, h.current
			member := rapid.SampledFrom(pool).Draw(t, "who")
			if slices.Contains(before, member) {
				h.live = slices.DeleteFunc(slices.Clone(before), func(m string) bool { return m == member })
			} else {
				h.live = append(slices.Clone(before), member)
			}
			h.current = h.assign(previous)
			look(h, before, previous)
		}
	})
}

func (h *history) assign(previous assignment.Assignment) assignment.Assignment {
	next, err := assignment.Run(h.strategy, h.locks, h.live, previous, h.hints)
	require.NoError(h, err)
	return next
}

// holders is how many hold each lock.
func (h *history) holders() int { return min(max(h.hints.Holders, 1), len(h.live)) }

func (h *history) joined(before []string) bool { return len(h.live) > len(before) }

// gains is how often a member got a lock.
func gains(previous, next assignment.Assignment) int {
	n := 0
	for _, move := range assignment.Moves(previous, next) {
		if move.To != "" {
			n++
		}
	}
	return n
}

// load is how many locks each live member holds, those with none included.
func (h *history) load(a assignment.Assignment) []int {
	counts := a.Counts()
	var load []int
	for _, member := range h.live {
		load = append(load, counts[member])
	}
	return load
}

func TestEveryStrategyIsValidDeterministicAndIdempotent(t *testing.T) {
	everything := declares{holders: 4, limit: 20, weights: true, pins: true, zones: true}
	each(t, assignment.Names(), everything, func(h *history, _ []string, previous assignment.Assignment) {
		// Valid is what Run checks: only live members, each once, at most Holders.
		require.NoError(h, assignment.Validate(h.current, h.locks, h.live, h.hints))

		// The order of the members does not count.
		again := slices.Clone(h.live)
		slices.Reverse(again)
		next, err := assignment.Run(h.strategy, h.locks, again, previous, h.hints)
		require.NoError(h, err)
		require.Equal(h, h.current, next)

		// Nothing moves when nothing happened.
		require.Equal(h, h.current, h.assign(h.current))
	})
}

func TestEveryLockHasItsHolders(t *testing.T) {
	each(t, assignment.Names(), declares{holders: 4, pins: true, zones: true}, func(h *history, _ []string, _ assignment.Assignment) {
		for _, lock := range h.locks {
			require.Len(h, h.current[lock], h.holders())
		}
	})
}

func TestNoMemberExceedsTheLimitAndNothingIsLeftWhileThereIsRoom(t *testing.T) {
	for _, name := range []string{"balanced", "sticky", "weighted", "rendezvous"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, holders := range []int{1, 4} {
				churn(t, name, declares{holders: holders, limit: 12}, func(h *history, _ []string, _ assignment.Assignment) {
					want := h.holders() * len(h.locks)
					if h.hints.Limit > 0 {
						want = min(want, h.hints.Limit*len(h.live))
						for member, n := range h.current.Counts() {
							require.LessOrEqual(h, n, h.hints.Limit, member)
						}
					}
					if holders == 1 || name == "balanced" {
						require.Equal(h, want, sum(h.load(h.current)))
					}
				})
			}
		})
	}
}

func TestOnLeaveOnlyTheLocksOfTheDepartedMove(t *testing.T) {
	// Weights are unequal in another test: rounding may move others, too.
	each(t, levelling, declares{holders: 1}, func(h *history, before []string, previous assignment.Assignment) {
		if h.joined(before) || len(h.live) == 0 {
			return
		}
		for _, move := range assignment.Moves(previous, h.current) {
			require.NotContains(h, h.live, move.From)
		}
	})
}

func TestOnJoinExactlyTheShareOfTheNewMemberMoves(t *testing.T) {
	each(t, []string{"balanced", "weighted"}, declares{holders: 1}, func(h *history, before []string, previous assignment.Assignment) {
		if !h.joined(before) || len(before) == 0 {
			return
		}
		moves := assignment.Moves(previous, h.current)
		require.Len(h, moves, len(h.locks)/len(h.live))
		for _, move := range moves {
			require.Equal(h, h.live[len(h.live)-1], move.To)
		}
	})
}

// From any previous assignment, not only from its own.
func TestBalancedLevelsWhatAnotherStrategyLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := names("member", rapid.IntRange(1, 9).Draw(t, "members"))
		locks := names("lock", rapid.IntRange(1, 24).Draw(t, "locks"))
		hints := assignment.Hints{Holders: rapid.IntRange(1, 4).Draw(t, "holders")}
		previous := assignment.Assignment{}
		for _, lock := range append(locks, "undeclared") {
			previous[lock] = rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(live), "gone")), 0, 5).Draw(t, lock)
		}

		next, err := assignment.Run(assignment.Balanced{}, locks, live, previous, hints)
		require.NoError(t, err)

		h := &history{T: t, live: live}
		load := h.load(next)
		require.LessOrEqual(t, slices.Max(load)-slices.Min(load), 1)
		require.Equal(t, min(hints.Holders, len(live))*len(locks), sum(load))
		require.Equal(t, fewestGains(locks, live, previous, min(hints.Holders, len(live))), gains(previous, next))
	})
}

func sum(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}

func TestStickyMovesNothingOnAJoinAndFillsTheLeastLoaded(t *testing.T) {
	churn(t, "sticky", declares{holders: 4}, func(h *history, before []string, previous assignment.Assignment) {
		for _, move := range assignment.Moves(previous, h.current) {
			require.NotContains(h, h.live, move.From)
		}
		if h.joined(before) && len(before) >= h.hints.Holders {
			require.Equal(h, previous, h.current)
		}
		if h.joined(before) || h.hints.Holders != 1 || len(h.live) == 0 {
			return
		}
		// A member that got a lock does not have two more than any other.
		counts, load := h.current.Counts(), h.load(h.current)
		for _, move := range assignment.Moves(previous, h.current) {
			require.LessOrEqual(h, counts[move.To], slices.Min(load)+1)
		}
	})
}

func TestWeightedGivesEachMemberItsShare(t *testing.T) {
	churn(t, "weighted", declares{holders: 1, weights: true}, func(h *history, _ []string, _ assignment.Assignment) {
		total := 0.0
		weight := func(member string) float64 {
			if w, ok := h.hints.Weights[member]; ok {
				return w
			}
			return 1
		}
		for _, member := range h.live {
			total += weight(member)
		}
		if total == 0 {
			return // all alike
		}
		for _, member := range h.live {
			share := float64(len(h.locks)) * weight(member) / total
			require.InDelta(h, share, h.current.Counts()[member], 1, member)
		}
	})
}

func TestWeightedMovesAsLittleAsItsSharesAllow(t *testing.T) {
	churn(t, "weighted", declares{holders: 3, weights: true}, func(h *history, _ []string, previous assignment.Assignment) {
		if len(h.live) == 0 {
			return
		}
		least := sum(h.load(h.current))
		had := previous.Counts()
		for member, n := range h.current.Counts() {
			least -= min(n, had[member])
		}
		if h.hints.Holders == 1 {
			require.Equal(h, least, gains(previous, h.current))
		}
		require.GreaterOrEqual(h, gains(previous, h.current), least)
	})
}

func TestPinsAreHonouredWhileTheirMemberIsLive(t *testing.T) {
	each(t, levelling, declares{holders: 3, pins: true, zones: true, weights: true}, func(h *history, _ []string, _ assignment.Assignment) {
		for lock, member := range h.hints.Pins {
			if slices.Contains(h.live, member) {
				require.Contains(h, h.current[lock], member, lock)
			}
		}
	})
}

func TestWhatIsNotPinnedIsSharedEvenly(t *testing.T) {
	churn(t, "balanced", declares{holders: 1, pins: true}, func(h *history, _ []string, _ assignment.Assignment) {
		if len(h.live) == 0 {
			return
		}
		pinned := map[string]int{}
		for _, member := range h.hints.Pins {
			pinned[member]++
		}
		low := slices.Min(h.load(h.current))
		for member, n := range h.current.Counts() {
			require.LessOrEqual(h, n, max(low+1, pinned[member]))
		}
	})
}

func TestHoldersOfOneLockAreInDistinctZonesWhenThereAreEnough(t *testing.T) {
	each(t, []string{"balanced", "weighted", "rendezvous"}, declares{holders: 4, zones: true}, func(h *history, _ []string, _ assignment.Assignment) {
		zone := func(member string) string {
			if z, ok := h.hints.Zones[member]; ok {
				return z
			}
			return member + " alone"
		}
		zones := func(members []string) int {
			distinct := map[string]bool{}
			for _, member := range members {
				distinct[zone(member)] = true
			}
			return len(distinct)
		}
		for _, lock := range h.locks {
			require.Equal(h, min(h.holders(), zones(h.live)), zones(h.current[lock]), lock)
		}
	})
}

func TestWeightZeroTakesNothingButPins(t *testing.T) {
	for _, name := range []string{"weighted", "rendezvous"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				live := names("member", rapid.IntRange(1, 6).Draw(t, "members"))
				locks := names("lock", rapid.IntRange(1, 12).Draw(t, "locks"))
				hints := assignment.Hints{
					Holders: rapid.IntRange(1, 3).Draw(t, "holders"),
					Weights: rapid.MapOf(rapid.SampledFrom(live), rapid.SampledFrom([]float64{0, 1, 2})).Draw(t, "weights"),
					Pins:    rapid.MapOf(rapid.SampledFrom(locks), rapid.SampledFrom(live)).Draw(t, "pins"),
				}
				previous := assignment.Assignment{}
				for _, lock := range locks {
					previous[lock] = rapid.SliceOfN(rapid.SampledFrom(live), 0, 4).Draw(t, lock)
				}
				takers := 0
				for _, member := range live {
					if w, ok := hints.Weights[member]; !ok || w > 0 {
						takers++
					}
				}

				next, err := assignment.Run(named(t, name), locks, live, previous, hints)
				require.NoError(t, err)

				for lock, holders := range next {
					if takers == 0 {
						require.Len(t, holders, min(hints.Holders, len(live)), "all alike")
						continue
					}
					require.Len(t, holders, min(hints.Holders, takers))
					for _, member := range holders {
						if w, ok := hints.Weights[member]; ok && w == 0 {
							require.Equal(t, member, hints.Pins[lock])
						}
					}
				}
			})
		})
	}
}
