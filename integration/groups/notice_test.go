package groups

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestParticipantWhoseNotifyIsBlockedLosesItsLocksBeforeAnybodyElseHasThem(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4)

	// given a participant and a lock in one session, and a Notify that does not return once the session is at risk
	proxy := netfault.New(t, h.server.Addr())
	one := h.player("node1", h.client(at(proxy.Addr()), timeout(2*time.Second)))
	blocked, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g, err := one.c.Group(s, recipes.GroupOptions{Notify: func(n recipes.GroupNotice) {
		one.told.note(n)
		if _, ok := n.(recipes.GroupAtRisk); ok {
			once.Do(func() { close(blocked) }) // a busy machine may put it at risk as well
			<-proceed
		}
	}})
	require.NoError(t, err)
	one.m, err = g.Join(t.Context(), "node1", one)
	require.NoError(t, err)
	mutex, err := one.c.Mutex(h.root+"/beside", recipes.MutexOptions{})
	require.NoError(t, err)
	beside, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	two := h.join(s, "node2")
	h.share(s, map[*player]int{one: 2, two: 2})

	// when it is cut off
	require.NoError(t, proxy.Stall())
	<-blocked

	// then all that the session held is lost, and the other one has it; the referee sees that nobody was too early
	h.share(s, map[*player]int{one: 0, two: 4})
	select {
	case <-beside.Lost():
	case <-time.After(soon):
		require.FailNow(t, "the lock beside the group is not lost")
	}
	require.Empty(t, all[recipes.GroupLost](one.told))

	// and it is told afterwards, and comes back
	close(proceed)
	require.NoError(t, proxy.Pass())
	await[recipes.GroupLost](t, one.told)
	h.share(s, map[*player]int{one: 2, two: 2})
}

func TestLeaveWaitsUntilTheLastNoticeIsTold(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	told, proceed := make(chan struct{}), make(chan struct{})
	g, err := c.Group(spec(1), recipes.GroupOptions{Notify: func(n recipes.GroupNotice) {
		if _, ok := n.(recipes.GroupJoined); ok {
			close(told)
			<-proceed
		}
	}})
	require.NoError(t, err)
	m, err := g.Join(t.Context(), "node1", &player{h: h, name: "node1"})
	require.NoError(t, err)
	<-told

	// given one that has given back all it had, whose Notify has not returned
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- m.Leave(ctx) }()
	h.nobodyThere()
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)

	close(proceed)
	require.NoError(t, m.Leave(t.Context()))
}

func TestCallbackThatEndsItsGoroutineCountsAsReturned(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(1)
	one := h.player("node1", h.client())
	entered := make(chan struct{})
	one.locked = func(context.Context, recipes.LockGrant) {
		close(entered)
		runtime.Goexit()
	}
	one.released = func(context.Context, string) {
		h.referee.leave(groupName+"_0", "node1", one.m0())
		runtime.Goexit()
	}
	one.join(s)
	<-entered
	require.Len(t, one.m.Locks(), 1)
	one.leave()
	require.Empty(t, all[recipes.GroupPanicked](one.told))
	two := h.join(s, "node2")
	h.share(s, map[*player]int{two: 1})
}
