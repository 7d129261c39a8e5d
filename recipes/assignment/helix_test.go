package assignment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

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

// A strategy that moves nothing keeps zones apart all the same.
func TestHoldersAreInDistinctZonesFirstTimeAddedDownAndUpAgain(t *testing.T) {
	// Given 9 instances in 3 zones and 3 holders a lock.
	locks, all, zones := names("partition", 64), names("instance", 10), map[string]string{}
	for i, member := range all {
		zones[member] = names("zone", 3)[i%3]
	}
	at := assignment.Assignment{}

	// When they come first, one is added, one goes down and comes again.
	for _, live := range [][]string{all[:9], all, all[:9], all[1:9], all[:9]} {
		at = run(t, assignment.Sticky{}, locks, live, at, assignment.Hints{Holders: 3, Zones: zones})

		// Then the holders of a lock are in all three zones.
		for _, lock := range locks {
			in := map[string]bool{}
			for _, member := range at[lock] {
				in[zones[member]] = true
			}
			require.Len(t, in, 3, lock)
		}
	}
}
