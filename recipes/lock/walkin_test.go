package lock

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// numbered is the name of a reader's node with a sequence number, as ZooKeeper writes it.
func numbered(sequence int32) string {
	return walkerName(0, znode.NewGUID()) + fmt.Sprintf("%010d", sequence)
}

func throngIn(sequences ...int32) throng {
	var names []string
	for _, n := range sequences {
		names = append(names, numbered(n))
	}
	children, _ := parseChildren(names)
	return throngOf(children)
}

func TestThrongCountsAllThatHaveComeSince(t *testing.T) {
	for name, c := range map[string]struct {
		there []int32
		next  int32
		most  int
	}{
		"the next one":             {[]int32{7, 9}, 10, 3},
		"others came in between":   {[]int32{7, 9}, 15, 8},
		"one that is seen already": {[]int32{7, 9}, 9, 2},
		"one from before":          {[]int32{7, 9}, 8, 2},
		"in no order":              {[]int32{9, 7, 8}, 10, 4},
		"at the turn":              {[]int32{math.MaxInt32 - 1, math.MaxInt32}, math.MinInt32, 3},
		"across the turn":          {[]int32{math.MaxInt32 - 1, math.MinInt32 + 1}, math.MinInt32 + 4, 5},
		"from the last number":     {[]int32{-1}, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.most, throngIn(c.there...).after("/lock/"+numbered(c.next)).there)
		})
	}
	before := throngIn(7)
	require.Equal(t, before, before.after("/lock/config"), "what is no request counts for nothing")
}

// Where no request was seen, the number of the first one says at least how many
// there may be.
func TestUnknownThrongForgetsNoReader(t *testing.T) {
	for _, n := range []int32{5000, math.MaxInt32, math.MinInt32, math.MinInt32 + 5000, -7} {
		require.GreaterOrEqual(t, throng{}.after("/lock/"+numbered(n)).there, maxSharing, "%d", n)
	}
}

// A lock that is forgotten while a reader is on its way in.
func TestHintsThatAreForgottenForgetTheirThrong(t *testing.T) {
	var hints hintTable
	hints.update("/lock", func(h *hint) { h.walking, h.throng = 1, throng{there: 3, sequence: 4} })
	for i := range maxHints {
		hints.update(fmt.Sprint("/other ", i), func(h *hint) { h.walking = 1 })
	}
	require.Zero(t, hints.get("/lock"))
	hints.update("/lock", func(h *hint) { h.walking = max(0, h.walking-1) })
	require.Zero(t, hints.get("/lock").walking)
}

// T1 overwrites what is no longer than the G of one holder without a look.
func TestShortestLockThatWasWalkedIntoIsLongerThanThatOfOneHolder(t *testing.T) {
	for _, g := range []lockRecord{{Walked: true}, {Open: true, Walked: true}} {
		require.Greater(t, len(g.encode()), soleHolderLength, "%s", g.encode())
	}
	require.Len(t, soleHolder(strings.Repeat("0", znode.GUIDLength)), soleHolderLength)
	back, err := decodeLock(lockRecord{Walked: true}.encode())
	require.NoError(t, err)
	require.True(t, back.Walked)
	require.Equal(t, openFormat, back.Format)
}

// However many of one client ask at the same moment.
func TestOnlySoManyOfOneClientAreOnTheirWayIn(t *testing.T) {
	l := newPriorityLock(unconnected(t), "", "/lock")
	var admitted atomic.Int32
	var crowd sync.WaitGroup
	for range 8 * maxWalking {
		crowd.Go(func() {
			if l.admit() {
				admitted.Add(1)
			}
		})
	}
	crowd.Wait()
	require.EqualValues(t, maxWalking, admitted.Load())
	require.EqualValues(t, maxWalking, l.cache.hints.get("/lock").walking)
}
