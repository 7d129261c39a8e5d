package lock

import (
	"context"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The reply is late: the caller does not wait for it, and nothing is left behind.
func TestCloseWithARequestUnderWayLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	c, l := uncontended(t, server)
	for _, do := range []string{"the lock is taken", "the lock is released"} {
		ctx, leave := context.WithCancel(t.Context())
		g, err := l.Acquire(ctx, Request{})
		require.NoError(t, err)
		if do == "the lock is taken" {
			require.NoError(t, g.Release(ctx))
			rule := server.On(zktest.Op(zktest.Multi).Path("/lockkeeper/**").Times(1)).HoldReply()
			go func() { <-rule.Reached(); leave() }()
			_, err = l.Acquire(ctx, Request{})
			require.ErrorIs(t, err, context.Canceled, do)
			rule.Release()
		} else {
			rule := server.On(zktest.Op(zktest.Delete).Times(1)).HoldReply()
			go func() { <-rule.Reached(); leave() }()
			require.ErrorContains(t, g.Release(ctx), "goes on in the background", do)
			rule.Release()
		}
		require.Eventually(t, func() bool {
			state, err := c.Lock(t.Context(), "users")
			return err == nil && len(state.Holders)+len(state.Waiters) == 0
		}, time.Minute, 5*time.Millisecond, do)
	}
}

// Callers have contexts that can be cancelled. In virtual time, where none of the timers ends that do so on a slow machine.
func TestAnUncontendedCycleTakesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := uncontended(t, zktest.RunT(t, zktest.Pipe()))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		made := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
		metrics.Read(made)
		before := made[0].Value.Uint64()
		const cycles = 1000
		for range cycles {
			g, err := l.Acquire(ctx, Request{Terms: priority.Terms{AcquireTimeout: new(time.Minute)}})
			require.NoError(t, err)
			require.NoError(t, g.Release(ctx))
		}
		metrics.Read(made)
		require.Less(t, made[0].Value.Uint64()-before, uint64(cycles/5))
	})
}

// However often a client has had the lock alone: it sees who has come since.
func TestAClientThatHasHadTheLockAloneSeesWhoHasItNow(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	_, mine := uncontended(t, server)
	_, other := uncontended(t, server)
	for alone := range maxBlind + 3 {
		for range alone {
			g, err := mine.Acquire(t.Context(), Request{})
			require.NoError(t, err)
			require.NoError(t, g.Release(t.Context()))
		}
		g, err := other.Acquire(t.Context(), Request{})
		require.NoError(t, err)
		_, err = mine.Acquire(t.Context(), Request{Terms: priority.Terms{AcquireTimeout: new(time.Duration)}})
		require.ErrorAs(t, err, new(*NotAcquiredError), "after %d cycles alone", alone)
		require.NoError(t, g.Release(t.Context()))
		mine.cache.hints.update(mine.path, func(h *hint) { h.busy = 0 })
	}
}

// uncontended returns a lock without requests, as its client knows.
func uncontended(t *testing.T, server *zktest.Server) (*Client, *PriorityLock) {
	t.Helper()
	c := patient(t, server)
	l, err := c.PriorityLock("users")
	require.NoError(t, err)
	g, err := l.Acquire(t.Context(), Request{})
	require.NoError(t, err)
	require.NoError(t, g.Release(t.Context()))
	return c, l
}

// patient returns a client that a busy machine may keep waiting, also with a try.
func patient(t *testing.T, server *zktest.Server) *Client {
	t.Helper()
	c, err := NewClient(Config{Servers: []string{server.Addr()}, Dialer: server.Dial, SessionTimeout: time.Minute, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}
