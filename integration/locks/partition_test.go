package locks

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// N5
func TestHolderThatIsCutOffKnowsBeforeAnotherClientIsGranted(t *testing.T) {
	h := share(t)

	// given a client behind a proxy that holds a lock, and one under a guard
	proxy := netfault.New(t, h.Server.Addr())
	c := h.Client(harness.SessionTimeout(3*time.Second), harness.Servers(proxy.Addr()))
	hold, err := h.guard(c, "guarded").Acquire(t.Context(), lockguard.Requirement{Scope: "guarded"})
	require.NoError(t, err)
	holder := h.Hold(h.lock(c), "holder")

	// and others that wait for both, with a connection of their own
	other := h.Client()
	successor, guarded := h.Acquire(h.lock(other), "successor"), h.Acquire(h.Lock(other, "guarded"), "guarded successor")
	successor.Queued()
	guarded.Queued()

	// when the network swallows all packets
	require.NoError(t, proxy.Blackhole())

	// then each has been told of its loss when the server has freed its lock
	successor.Granted()
	require.Len(t, harness.All[recipes.Lost](holder.Notices), 1, "the holder did not know")
	guarded.Granted()
	require.ErrorAs(t, context.Cause(hold.Context()), new(*recipes.LostError), "the work went on")

	// and the token is old
	lost := holder.Lost().Err
	require.Equal(t, recipes.LossSession, lost.Reason)
	require.Greater(t, successor.Token(), lost.Token)
	require.Error(t, hold.Release(t.Context()))
	require.NoError(t, proxy.Pass())
}

// The server still hears the holder, so its session lives; but the holder
// cannot know that. It must give up the lock, and must not keep it from others
// once the network is back.
func TestHolderThatHearsNoAnswersLosesAndLeavesNothingInTheWay(t *testing.T) {
	h := share(t)

	// given a holder behind a proxy, and a waiter
	proxy := netfault.New(t, h.Server.Addr())
	c := h.Client(harness.SessionTimeout(2*time.Second), harness.Servers(proxy.Addr()))
	holder := h.Hold(h.lock(c), "holder")
	waiter := h.queued("waiter")

	// when the answers vanish, and nothing else
	require.NoError(t, proxy.Blackhole(netfault.ToClient))

	// then the holder is told of its loss
	require.Equal(t, recipes.LossSession, holder.Lost().Err.Reason)

	// and when the network is back, the waiter holds, whether the session survived or not
	require.NoError(t, proxy.Pass())
	waiter.Granted()
	require.ErrorAs(t, holder.Granted().Release(t.Context()), new(*recipes.LostError))
}

// Past its lease, or past its grace, a holder may be taken over at any moment.
// One that is cut off would not hear of it, so it does not wait for the end of
// its session.
func TestHolderWhoseTimeIsOverLosesWithItsConnection(t *testing.T) {
	h := share(t)
	onlooker := h.Client()

	// given three holders in one long session: one past its lease, one past its grace, one within both
	proxy := netfault.New(t, h.Server.Addr())
	c := h.Client(harness.SessionTimeout(time.Minute), harness.Servers(proxy.Addr()))
	expired := h.Hold(h.lock(c), "expired", harness.Lease(100*time.Millisecond))
	asked := h.Hold(h.Lock(c, "asked"), "asked", harness.Cleanup(time.Millisecond))
	fine := h.Hold(h.Lock(c, "fine"), "fine")
	h.Acquire(h.Lock(onlooker, "asked"), "polite", harness.At(1))
	harness.Await[recipes.PreemptAsked](h, asked.Notices)
	harness.Eventually(t, func() bool { return h.state(onlooker).Holders[0].LeaseLeft == 0 }, "the lease is over")

	// when the connection is cut
	require.NoError(t, proxy.Cut())

	// then the first two are told at once that they have lost
	require.Equal(t, recipes.LossSession, expired.Lost().Err.Reason)
	require.Equal(t, recipes.LossSession, asked.Lost().Err.Reason)

	// and the third one goes on when the network is back
	require.NoError(t, proxy.Pass())
	fine.Release()
	require.Empty(t, harness.All[recipes.Lost](fine.Notices))
}

// N9
func TestAcquireReturnsAtItsDeadlineFromAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	const patience = 700 * time.Millisecond
	returns := func(t *testing.T, acquire func(context.Context) error) error {
		t.Helper()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := acquire(ctx)
		require.Error(t, err)
		require.GreaterOrEqual(t, time.Since(start), patience)
		return err
	}

	t.Run("from the first connection on", func(t *testing.T) {
		t.Parallel()
		addr := muteServer(t)
		c, err := recipes.NewClient(recipes.Config{Servers: []string{addr}, SessionTimeout: 3 * time.Second})
		require.NoError(t, err)
		l, err := c.PriorityLock("users")
		require.NoError(t, err)

		// when somebody acquires with a deadline, then it ends there and says why
		err = returns(t, func(ctx context.Context) error {
			_, err := l.Acquire(ctx, recipes.Request{})
			return err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var gone *recipes.UnavailableError
		require.ErrorAs(t, err, &gone)
		require.ErrorContains(t, err, addr)

		// and with an acquire timeout likewise
		err = returns(t, func(context.Context) error {
			_, err := l.Acquire(t.Context(), recipes.Request{AcquireTimeout: new(patience)})
			return err
		})
		var busy *recipes.NotAcquiredError
		require.ErrorAs(t, err, &busy)
		require.ErrorAs(t, err, &gone)
		require.ErrorContains(t, err, addr)

		// and the client can be closed
		require.NoError(t, c.Close(t.Context()))
	})

	t.Run("from now on", func(t *testing.T) {
		h := share(t)

		// given a client that is connected, and one that waits
		proxy := netfault.New(t, h.Server.Addr())
		c := h.Client(harness.Servers(proxy.Addr()))
		holder := h.hold("holder")
		require.NoError(t, c.Ready(t.Context()))
		err := returns(t, func(ctx context.Context) error {
			// when the server goes mute while it waits, or before it asks
			_, err := h.lock(c).Acquire(ctx, recipes.Request{Notify: on[recipes.Queued](func() { _ = proxy.Blackhole() })})
			return err
		})

		// then both end at their deadline
		require.ErrorIs(t, err, context.DeadlineExceeded)
		err = returns(t, func(ctx context.Context) error {
			_, err := h.lock(c).Acquire(ctx, recipes.Request{})
			return err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)

		// and what was left at the server is removed when it answers again
		require.NoError(t, proxy.Pass())
		harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 1 }, "the request has gone")
		holder.Release()
	})
}

// muteServer accepts connections and never says anything.
func muteServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var accepting sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		accepting.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}
