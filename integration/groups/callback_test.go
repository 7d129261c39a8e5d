package groups

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestLockStaysUntilItsCleanupHasReturnedHoweverLateThatIs(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(2, func(s *recipes.GroupSpec) { s.CleanupTimeout = 100 * time.Millisecond })

	// given a participant whose cleanup of one lock takes longer than its timeout
	one := h.player("node1", h.client())
	proceed := make(chan struct{})
	slow := make(chan string, 2)
	one.released = func(ctx context.Context, lock string) {
		<-ctx.Done()
		slow <- lock
		<-proceed
	}
	one.join(s)
	h.share(s, map[*player]int{one: 2})
	two := h.join(s, "node2")
	lock := <-slow

	// then the overrun is told, and nobody else has the lock
	overrun := await[recipes.GroupCleanupOverrun](t, one.told)
	require.Equal(t, lock, overrun.Lock)
	require.Equal(t, 100*time.Millisecond, overrun.After)
	require.Never(t, func() bool { return len(two.m.Locks()) > 0 }, 200*time.Millisecond, 10*time.Millisecond)
	state := h.state()
	for _, l := range state.Locks {
		require.Len(t, l.Holders, 1)
		require.Equal(t, "node1", l.Holders[0].Name)
		require.Equal(t, l.Lock == lock, l.Holders[0].Releasing)
	}

	// until it has returned
	close(proceed)
	h.share(s, map[*player]int{one: 1, two: 1})
	require.Equal(t, []string{lock}, two.locks())
}

func TestSlowCleanupOfOneLockDoesNotHoldUpTheOthersOfOneThatLeaves(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(4)

	// given a participant that leaves, with one lock whose cleanup takes long
	one := h.player("node1", h.client())
	proceed := make(chan struct{})
	one.released = func(_ context.Context, lock string) {
		if lock == groupName+"_0" {
			<-proceed
		}
	}
	one.join(s)
	h.share(s, map[*player]int{one: 4})
	two := h.player("node2", h.client())
	two.join(spec(4, debounce(time.Minute))) // so that nothing moves before that
	left := make(chan error, 1)
	go func() { left <- one.m.Leave(context.Background()) }()

	// then the others are taken over meanwhile
	g, err := h.watcher.Group(s)
	require.NoError(t, err)
	_, err = g.Apply(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(two.m.Locks()) == 3 }, soon, time.Millisecond)
	select {
	case <-left:
		require.FailNow(t, "it has left before its cleanup returned")
	default:
	}
	require.True(t, h.state().Members[0].Leaving)

	// and the last one afterwards
	close(proceed)
	require.NoError(t, <-left)
	h.share(s, map[*player]int{two: 4})
}

func TestCallbackThatPanicsCountsAsReturned(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(1)
	one := h.player("node1", h.client())
	one.locked = func(context.Context, recipes.LockGrant) { panic("in OnLocked") }
	one.join(s)
	panicked := await[recipes.GroupPanicked](t, one.told)
	require.Equal(t, "OnLocked", panicked.Callback)
	require.Equal(t, "in OnLocked", panicked.Value)
	require.Contains(t, panicked.Stack, "callback_test.go")
	require.Len(t, one.m.Locks(), 1)
	one.mu.Lock()
	one.released = func(context.Context, string) {
		h.referee.leave(groupName+"_0", "node1", one.m0())
		panic("in OnReleased")
	}
	one.mu.Unlock()
	one.leave()
	require.Equal(t, "OnReleased", await[recipes.GroupPanicked](t, one.told).Callback)
	two := h.join(s, "node2")
	h.share(s, map[*player]int{two: 1})
}

// m0 is the token of the only lock, of which the referee alone knows once it
// has ended.
func (p *player) m0() recipes.Token {
	p.h.referee.mu.Lock()
	defer p.h.referee.mu.Unlock()
	return p.h.referee.tokens[groupName+"_0"]
}

func TestLockThatIsTakenBackBeforeItWasToldIsNeverTold(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	s := spec(1)

	// given a lock whose OnLocked is still under way from an earlier session
	one := h.player("node1", h.client())
	entered, proceed := make(chan struct{}, 10), make(chan struct{})
	one.locked = func(context.Context, recipes.LockGrant) {
		entered <- struct{}{}
		<-proceed
	}
	one.join(s)
	<-entered

	// when its session expires, and it is granted the lock anew and leaves
	h.expire(one.c)
	await[recipes.GroupLost](t, one.told)
	await[recipes.GroupJoined](t, one.told)
	require.Eventually(t, func() bool { return len(one.m.Locks()) == 1 }, soon, time.Millisecond)
	left := make(chan error, 1)
	go func() { left <- one.m.Leave(context.Background()) }()
	require.Eventually(t, func() bool { return len(one.m.Locks()) == 0 }, soon, time.Millisecond)
	close(proceed)
	require.NoError(t, <-left)

	// then there was one call of each callback
	require.Equal(t, []string{"locked", "released", "dropped"}, one.history(groupName+"_0"))
}
