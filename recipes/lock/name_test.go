package lock

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

func TestContenderNameTellsItsPlace(t *testing.T) {
	guid := znode.NewGUID()
	require.Len(t, guid, znode.GUIDLength)
	for _, level := range []priority.Level{0, 1, 90, priority.Emergency} {
		for seq, want := range map[string]int32{"0000000000": 0, "0000000042": 42, "2147483647": math.MaxInt32, "-2147483648": math.MinInt32, "-000000007": -7} {
			c, ok := parseChild(contenderName(level, priority.Exclusive, guid) + seq)
			require.True(t, ok)
			require.Equal(t, guid, c.guid)
			require.Equal(t, position{Level: level, Sequence: want}, c.place)
			require.Equal(t, priority.Exclusive, c.mode)
		}
	}
	c, ok := parseChild(contenderName(3, priority.Shared, guid) + "0000000001")
	require.True(t, ok)
	require.Equal(t, priority.Shared, c.mode)
}

// Sequences wrap from the largest int32 to the smallest, and from -1 to 0. Those of requests that wait at one time were
// given out within 2^31 of each other, wherever that begins.
func TestQueueIsOrderedByLevelThenArrivalWhereverTheSequencesWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.OneOf(rapid.Just(int32(-2)), rapid.Just(int32(math.MaxInt32-2)), rapid.Int32()).Draw(t, "first sequence")
		arrivals := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Int32Range(0, 5), rapid.Int32Range(0, math.MaxInt32-1)), 2, 6, rapid.ID[int32]).Draw(t, "arrivals")
		slices.Sort(arrivals)
		var names, want []string
		levels := make([]priority.Level, len(arrivals))
		for i, arrival := range arrivals {
			levels[i] = priority.Level(rapid.IntRange(0, 2).Draw(t, "level"))
			names = append(names, contenderName(levels[i], priority.Exclusive, znode.NewGUID())+fmt.Sprintf("%010d", first+arrival))
		}
		for level := priority.Level(2); level >= 0; level-- {
			for i, name := range names {
				if levels[i] == level {
					want = append(want, name)
				}
			}
		}
		children, foreign := parseChildren(rapid.Permutation(names).Draw(t, "as ZooKeeper lists them"))
		require.Empty(t, foreign)
		var got []string
		for _, c := range children {
			got = append(got, c.name)
		}
		require.Equal(t, want, got)
	})
}

func TestForeignChildrenAreIgnoredAndReported(t *testing.T) {
	ours := contenderName(0, priority.Exclusive, znode.NewGUID()) + "0000000001"
	foreign := []string{
		"", "x", "lock-0000000001", "_c_6f0c7f63-0d1d-4b1f-8a3e-f1e0a6a5d2aa-lock-0000000001",
		strings.Replace(ours, "-x-", "-y-", 1), ours[:len(ours)-1] + "z", "9" + ours[1:], strings.ToUpper(ours) + "é",
		strings.Replace(ours, ours[13:17], "zzzz", 1),
	}
	children, odd := parseChildren(append(slices.Clone(foreign), ours))
	require.Len(t, children, 1)
	require.ElementsMatch(t, foreign, odd)
}
