package assignment_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// What Apache Helix tests of a rebalancer of one's own.
func TestCustomizedRebalancerIsAskedAndEveryLockHasExactlyOneHolder(t *testing.T) {
	// Given 60 locks and a strategy that somebody wrote.
	locks := names("partition", 60)
	for _, members := range []int{5, 7} {
		live := names("participant", members)
		asked := 0
		dealer := assignment.StrategyFunc(func(locks, live []string, _ assignment.Assignment, _ assignment.Hints) (assignment.Assignment, error) {
			asked++
			next := assignment.Assignment{}
			for i, lock := range locks {
				next[lock] = []string{live[i%len(live)]}
			}
			return next, nil
		})

		// When it is run.
		next := run(t, dealer, locks, live, nil, assignment.Hints{})

		// Then it was asked once, every lock has one holder and the counts are within one.
		require.Equal(t, 1, asked)
		require.Len(t, next, 60)
		for _, lock := range locks {
			require.Len(t, next[lock], 1)
		}
		per := counts(next)
		require.LessOrEqual(t, per[len(per)-1]-per[0], 60%members)
	}
}

// What it tests of its sticky strategy.
func TestStickyRespectsTheLimitOfANode(t *testing.T) {
	// Given room for 4 each, 3 nodes and 20 locks.
	hints := assignment.Hints{Limit: 4}
	for _, name := range assignment.Names() {
		next := run(t, named(t, name), names("partition", 20), names("instance", 3), nil, hints)
		require.Equal(t, []int{4, 4, 4}, counts(next), name)
	}
	// A strategy that does not care is refused.
	greedy := assignment.StrategyFunc(func(locks, live []string, _ assignment.Assignment, _ assignment.Hints) (assignment.Assignment, error) {
		next := assignment.Assignment{}
		for _, lock := range locks {
			next[lock] = live[:1]
		}
		return next, nil
	})
	_, err := assignment.Run(greedy, names("partition", 20), names("instance", 3), nil, hints)
	require.EqualError(t, err, `assignment refused: "instance_0" is given 20 locks; the limit is 4`)
}

func TestStickyGivesTheSameForTheSameInput(t *testing.T) {
	locks, live := names("partition", 50), names("instance", 7)
	first := run(t, assignment.Sticky{}, locks, live, nil, assignment.Hints{Holders: 3})
	at := first
	for range 10 {
		require.Equal(t, first, run(t, assignment.Sticky{}, locks, live, nil, assignment.Hints{Holders: 3}))
		at = run(t, assignment.Sticky{}, locks, live, at, assignment.Hints{Holders: 3})
		require.Equal(t, first, at)
	}
}

func TestStickyMovesNothingWhenAnInstanceIsNew(t *testing.T) {
	locks := names("partition", 50)
	before := run(t, assignment.Sticky{}, locks, names("instance", 7), nil, assignment.Hints{Holders: 3})
	require.Equal(t, before, run(t, assignment.Sticky{}, locks, names("instance", 8), before, assignment.Hints{Holders: 3}))
}

func TestStickyMovesOnlyTheLocksOfAnInstanceThatIsDown(t *testing.T) {
	locks, live := names("partition", 50), names("instance", 7)
	before := run(t, assignment.Sticky{}, locks, live, nil, assignment.Hints{Holders: 3})

	after := run(t, assignment.Sticky{}, locks, live[1:], before, assignment.Hints{Holders: 3})

	moves := assignment.Moves(before, after)
	require.Len(t, moves, len(before.Holds(live[0])))
	for _, move := range moves {
		require.Equal(t, live[0], move.From)
		require.NotEmpty(t, move.To)
	}
}

func TestStickyMovesNothingWhenAnInstanceRestarts(t *testing.T) {
	// Given it was down for less than the debounce (nobody asked in between), or longer.
	locks, live := names("partition", 50), names("instance", 7)
	before := run(t, assignment.Sticky{}, locks, live, nil, assignment.Hints{Holders: 3})
	require.Equal(t, before, run(t, assignment.Sticky{}, locks, live, before, assignment.Hints{Holders: 3}))

	down := run(t, assignment.Sticky{}, locks, live[1:], before, assignment.Hints{Holders: 3})
	require.Equal(t, down, run(t, assignment.Sticky{}, locks, live, down, assignment.Hints{Holders: 3}))
}

func TestStickyAssignsOnceTheFirstInstanceIsLive(t *testing.T) {
	locks := names("partition", 50)
	nobody := run(t, assignment.Sticky{}, locks, nil, nil, assignment.Hints{Holders: 3})
	require.Empty(t, nobody)

	one := run(t, assignment.Sticky{}, locks, names("instance", 1), nobody, assignment.Hints{Holders: 3})
	require.Len(t, one.Holds("instance_0"), 50)

	two := run(t, assignment.Sticky{}, locks, names("instance", 2), one, assignment.Hints{Holders: 3})
	require.Len(t, two.Holds("instance_0"), 50)
	require.Len(t, two.Holds("instance_1"), 50)
}

func TestHoldersAreInDistinctZonesFirstTimeAddedDownAndUpAgain(t *testing.T) {
	for _, name := range []string{"sticky", "balanced", "weighted", "rendezvous"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Given 9 instances in 3 zones and 3 holders a lock.
			locks, live := names("partition", 64), names("instance", 9)
			zones := map[string]string{}
			for i, member := range append(live, "instance_9") {
				zones[member] = names("zone", 3)[i%3]
			}
			hints := assignment.Hints{Holders: 3, Zones: zones}
			distinct := func(a assignment.Assignment) {
				t.Helper()
				for _, lock := range locks {
					in := map[string]bool{}
					for _, member := range a[lock] {
						in[zones[member]] = true
					}
					require.Len(t, in, 3, lock)
				}
			}
			at := assignment.Assignment{}
			step := func(live []string) []assignment.Move {
				next := run(t, named(t, name), locks, live, at, hints)
				distinct(next)
				moves := assignment.Moves(at, next)
				at = next
				return moves
			}

			// When they come first, one is added, one goes down and comes again.
			step(live)
			step(append(slices.Clone(live), "instance_9"))
			down := step(live)
			step(live[1:])
			step(live)

			// Then the holders of a lock are in all three zones at any time, and
			// when one goes only its locks move.
			if name != "weighted" && name != "balanced" {
				for _, move := range down {
					require.Equal(t, "instance_9", move.From)
				}
			}
		})
	}
}
