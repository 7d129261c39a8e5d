package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A list is shared only with the requests that asked before it was sent for: to
// any other it could show a holder that G, which was read before, no longer
// knows.
func TestListIsSharedWithRequestsThatAskedBeforeItWasSentFor(t *testing.T) {
	var table crowdTable
	mayBeSent := func(l *crowdLook) bool {
		select {
		case <-l.turn:
			return true
		default:
			return false
		}
	}

	// few at once: each sends for its own
	var flying []*crowdLook
	for range maxCrowdLists {
		look, mine := table.join("lock")
		require.True(t, mine)
		require.True(t, mayBeSent(look))
		flying = append(flying, look)
	}
	other, mine := table.join("other")
	require.True(t, mine && mayBeSent(other), "another lock's")

	// many: one sends for all, when one of the others has come
	next, mine := table.join("lock")
	require.True(t, mine)
	require.False(t, mayBeSent(next))
	for range 100 {
		same, mine := table.join("lock")
		require.Same(t, next, same)
		require.False(t, mine)
	}
	table.leave("lock", flying[1])
	require.True(t, mayBeSent(next))

	// from then on, those who ask get a later one
	later, mine := table.join("lock")
	require.True(t, mine)
	require.NotSame(t, next, later)
	require.False(t, mayBeSent(later))

	// one that leaves before its turn leaves nothing, and those who count on it ask again
	table.leave("lock", later)
	<-later.done
	again, mine := table.join("lock")
	require.True(t, mine)
	require.NotSame(t, later, again)
	table.leave("lock", next)
	require.True(t, mayBeSent(again))

	for _, look := range []*crowdLook{flying[0], flying[2], flying[3], again} {
		table.leave("lock", look)
	}
	table.leave("other", other)
	require.Empty(t, table.locks, "nothing is left when no request looks")
}
