package lock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// heldGrant is a grant of the lock "orders" in a bubble of virtual time, in a session of 16 s.
func heldGrant(t *testing.T, lease time.Duration, notify func(Notice)) (*Grant, *zktest.Server) {
	t.Helper()
	server := zktest.RunT(t, zktest.Pipe(), zktest.TickTime(2*time.Second))
	c, err := NewClient(Config{Servers: []string{server.Addr()}, Dialer: server.Dial, SessionTimeout: 16 * time.Second, Margin: 4 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() {
		server.Heal()
		require.NoError(t, c.Close(context.Background()))
	})
	l, err := c.PriorityLock("orders")
	require.NoError(t, err)
	g, err := l.Acquire(t.Context(), Request{Terms: priority.Terms{LeaseTimeout: lease}, Notify: notify})
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Release(context.Background()) })
	return g, server
}

func TestCheckTellsTheLossOfTheSessionAndThenSaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Notice
		g, server := heldGrant(t, 10*time.Minute, func(n Notice) {
			if _, ok := n.(Lost); ok {
				told = append(told, n)
			}
		})
		server.Partition()
		<-time.After(10 * time.Second)
		require.NoError(t, g.Check(), "before the deadline")
		<-time.After(10 * time.Second)
		var lost *LostError
		require.ErrorAs(t, g.Check(), &lost)
		require.Equal(t, LossSession, lost.Reason)
		require.NotZero(t, lost.Token)
		synctest.Wait()
		require.Equal(t, []Notice{Lost{Err: lost}}, told)

		server.Heal()
		<-time.After(time.Minute)
		require.Equal(t, error(lost), g.Check(), "lost is lost")
		require.Len(t, told, 1)
	})
}

func TestCheckOfAHolderInSilenceCountsItsLeaseAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, server := heldGrant(t, 2*time.Second, nil)
		server.Partition()
		<-time.After(3 * time.Second)
		require.NoError(t, g.Check(), "the lease is over, but no preemption note was missed")

		<-time.After(4 * time.Second) // a request may have preempted it, and taken the lock
		require.ErrorContains(t, g.Check(), "cut off after the end of the lease or grace")
	})
}

func TestCheckAfterReleaseSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := heldGrant(t, time.Minute, nil)
		require.NoError(t, g.Check())
		require.NoError(t, g.Release(t.Context()))
		require.ErrorIs(t, g.Check(), ErrReleased)
		<-time.After(time.Minute)
		require.ErrorIs(t, g.Check(), ErrReleased, "what was given back is not lost")
	})
}
