package groups

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestParticipantThatLeavesTakesUpNothingThatItWasGivenMeanwhile(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(2)
	h.join(s, "controller")
	proxy := netfault.New(t, h.server.Addr())
	p := h.player("leaver", h.client(at(proxy.Addr())))
	cleaning, clean := make(chan struct{}, 9), make(chan struct{})
	p.released = func(context.Context, string) { cleaning <- struct{}{}; <-clean }
	p.join(s)
	// A lock that it is told of: one that it has never heard of has nothing to clean up.
	require.Eventually(t, func() bool { return len(p.m.Locks()) == 1 && len(p.history(p.locks()[0])) == 1 }, soon, time.Millisecond)
	own := p.locks()[0]

	// given one that leaves and cleans up, of which nobody can hear
	require.NoError(t, proxy.Stall())
	left := make(chan error, 1)
	go func() { left <- p.m.Leave(context.Background()) }()
	select {
	case <-cleaning:
	case <-time.After(soon):
		require.Fail(t, "nothing is cleaned up")
	}

	// when it is given more locks before it can say so
	g, err := h.watcher.Group(spec(12))
	require.NoError(t, err)
	_, err = g.Apply(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		n := 0
		for _, l := range h.state().Locks {
			for _, holder := range l.Holders {
				if holder.Name == "leaver" {
					n++
				}
			}
		}
		return n == 6
	}, soon, 5*time.Millisecond)
	require.NoError(t, proxy.Pass())

	// then it gives them back untold, while it still cleans up
	require.Eventually(t, func() bool {
		n := 0
		for _, l := range h.state().Locks {
			if l.State == recipes.GroupLocked && l.Holders[0].Name == "controller" {
				n++
			}
		}
		return n == 11
	}, soon, 5*time.Millisecond)
	close(clean)
	require.NoError(t, <-left)
	for _, lock := range recipes.NumberedLocks(groupName, 12) {
		if lock != own {
			require.Empty(t, p.history(lock), lock)
		}
	}
}
