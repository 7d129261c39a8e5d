package assignment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// What Apache Helix tests of a rebalancer of one's own.
func TestCustomizedRebalancerIsAskedAndEveryLockHasExactlyOneHolder(t *testing.T) {
	// Given 60 locks and a strategy of the user's own.
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
