package groups

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestParticipantAtItsLimitGetsALockOnlyWhenItHasReleasedAnother(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	pinned := func(a, b string) recipes.GroupSpec {
		return spec(0, func(s *recipes.GroupSpec) {
			s.Limit, s.Locks, s.Pins = 1, []string{"A", "B"}, map[string]string{"A": a, "B": b}
		})
	}
	s := pinned("node1", "node2")
	one, two := h.join(s, "node1"), h.join(s, "node2")
	h.share(s, map[*player]int{one: 1, two: 1})

	// given one that cleans up the lock which it has to change for the other's
	cleaning, proceed := make(chan struct{}), make(chan struct{})
	one.mu.Lock()
	one.released = func(context.Context, string) {
		close(cleaning)
		<-proceed
		one.mu.Lock()
		one.released = nil
		one.mu.Unlock()
	}
	one.mu.Unlock()
	g, err := h.watcher.Group(pinned("node2", "node1"))
	require.NoError(t, err)
	_, err = g.Apply(t.Context())
	require.NoError(t, err)
	<-cleaning

	// then it is not given that one, though its holder has released it
	require.Eventually(t, func() bool { return len(two.history("B")) == 2 }, soon, time.Millisecond)
	require.Never(t, func() bool { return len(one.m.Locks()) > 0 }, 200*time.Millisecond, 5*time.Millisecond)
	require.Equal(t, 1, h.referee.count())

	// until it has
	close(proceed)
	h.share(s, map[*player]int{one: 1, two: 1})
	require.Equal(t, []string{"B"}, one.locks())
	require.Equal(t, []string{"A"}, two.locks())
}
