package locks

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// N5
func TestHolderThatIsCutOffKnowsBeforeAnotherClientIsGranted(t *testing.T) {
	t.Parallel()
	const session = 3 * time.Second

	for _, network := range []struct {
		name string
		wait time.Duration // the moment of the last ping is chance: cut off at several of them
		slow time.Duration // the last answer took that long: what counts is when its request was sent
	}{
		{name: "at once"},
		{name: "later", wait: session / 9},
		{name: "later still", wait: session * 2 / 9},
		{name: "while an answer is on its way", slow: session / 5},
	} {
		t.Run(network.name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)

			// given a client behind a proxy that holds a lock, and one under a guard
			proxy := netfault.New(t, h.server.Addr())
			wire := &tripwire{}
			c := h.client(timeout(session), behind(proxy), through(wire))
			guard, err := lockguard.New(c)
			require.NoError(t, err)
			hold, err := guard.Acquire(t.Context(), lockguard.Requirement{Scope: "guarded", Owner: "guarded"})
			require.NoError(t, err)
			ended := make(chan time.Time, 1)
			go func() {
				<-hold.Context().Done()
				ended <- time.Now()
			}()
			holder := h.hold(h.lock(c), "holder")
			require.Equal(t, session, c.SessionTimeout())
			require.NoError(t, h.warm(c))

			// and others that wait for both, with a connection of their own
			other := h.client()
			successor, granted := h.askTimed(h.lock(other), "successor")
			guardedSuccessor, guardedGranted := h.askTimed(h.scope(other, "guarded"), "guarded successor")
			successor.queued()
			guardedSuccessor.queued()

			// when the network swallows all packets
			<-time.After(network.wait)
			if network.slow > 0 {
				wire.lastAnswer(network.slow)
				h.ask(h.scope(c, "warm"), "last")
				defer wire.restore()
			} else {
				require.NoError(t, proxy.Blackhole())
			}
			cut := time.Now()

			// then the holder is warned, and told of its loss before the server frees the lock
			await[recipes.AtRisk](t, holder.told)
			lost, at := awaitAt[recipes.Lost](t, holder.told)
			require.Equal(t, recipes.LossSession, lost.Err.Reason)
			successor.granted()
			margin := granted().Sub(at)
			guardedSuccessor.granted()
			guardedMargin := guardedGranted().Sub(<-ended)
			report := fmt.Sprintf("session timeout %s: cut off, lock lost after %s, context ended; granted to another client %s and %s after it",
				session, at.Sub(cut).Round(time.Millisecond), margin.Round(time.Millisecond), guardedMargin.Round(time.Millisecond))
			t.Log(report)
			if testing.Verbose() {
				fmt.Printf("cut off %s: %s\n", network.name, report)
			}
			// A twelfth of the timeout is what the client promises. The scheduler of a busy machine may have its part.
			require.Greater(t, margin, session/24, report)
			require.Greater(t, guardedMargin, session/24, report)
			var loss *recipes.LostError
			require.ErrorAs(t, context.Cause(hold.Context()), &loss)

			// and its token is old
			require.Greater(t, successor.token(), lost.Err.Token)
			require.Error(t, hold.Release(t.Context()))
			require.NoError(t, proxy.Pass())
		})
	}
}

// askTimed is ask that also says when the grant came.
func (h *house) askTimed(l *recipes.PriorityLock, owner string) (*user, func() time.Time) {
	u := h.ask(l, owner)
	var at time.Time
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		<-u.done
		at = time.Now()
	}()
	return u, func() time.Time { <-noted; return at }
}

func behind(proxy *netfault.Proxy) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Servers = []string{proxy.Addr()} }
}

// The server still hears the holder, so its session lives; but the holder
// cannot know that. It must give up the lock, and must not keep it from others
// once the network is back.
func TestHolderThatHearsNoAnswersLosesAndLeavesNothingInTheWay(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder behind a proxy, and a waiter
	proxy := netfault.New(t, h.server.Addr())
	c := h.client(timeout(2*time.Second), behind(proxy))
	holder := h.hold(h.lock(c), "holder")
	waiter := h.ask(h.lock(h.client()), "waiter")
	waiter.queued()

	// when the answers vanish, and nothing else
	require.NoError(t, proxy.Blackhole(netfault.ToClient))

	// then the holder is told of its loss
	require.Equal(t, recipes.LossSession, await[recipes.Lost](t, holder.told).Err.Reason)

	// and when the network is back, the waiter holds, whether the session survived or not
	require.NoError(t, proxy.Pass())
	waiter.granted()
	var lost *recipes.LostError
	require.ErrorAs(t, holder.grant.Release(t.Context()), &lost)
}

// A short silence is survived: nobody is told anything but the warning.
func TestHolderSurvivesASilenceThatIsShorterThanItsSession(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder and a waiter behind one proxy
	proxy := netfault.New(t, h.server.Addr())
	c := h.client(timeout(8*time.Second), behind(proxy))
	holder := h.hold(h.lock(c), "holder")
	waiter := h.ask(h.lock(c), "waiter")
	waiter.queued()
	id, _ := c.Session()

	// when all connections are reset, or are dead for a while
	require.NoError(t, proxy.Reset())
	require.NoError(t, c.Ready(t.Context()))
	require.NoError(t, proxy.Blackhole())
	await[recipes.AtRisk](t, holder.told)
	require.NoError(t, proxy.Pass())

	// then the session goes on, and everything in it
	holder.release()
	waiter.granted()
	again, _ := c.Session()
	require.Equal(t, id, again)
	require.Zero(t, count[recipes.Lost](holder.told))
	require.Zero(t, count[recipes.Requeued](waiter.told))
}

// Past its lease, or past its grace, a holder may be taken over at any moment.
// One that is cut off would not hear of it, so it does not wait for the end of
// its session.
func TestHolderWhoseTimeIsOverLosesWithItsConnection(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given three holders in one long session: one past its lease, one past its grace, one within both
	proxy := netfault.New(t, h.server.Addr())
	c := h.client(timeout(time.Minute), behind(proxy))
	expired := h.hold(h.lock(c), "expired", lease(100*time.Millisecond))
	asked := h.hold(h.scope(c, "asked"), "asked", cleanup(time.Millisecond))
	fine := h.hold(h.scope(c, "fine"), "fine")
	h.ask(h.scope(onlooker, "asked"), "polite", at(1))
	await[recipes.PreemptAsked](t, asked.told)
	require.Eventually(t, func() bool { return h.state(onlooker).Holders[0].LeaseLeft == 0 }, soon, 5*time.Millisecond)

	// when the connection is cut
	require.NoError(t, proxy.Cut())

	// then the first two are told at once that they have lost
	start := time.Now()
	require.Equal(t, recipes.LossSession, await[recipes.Lost](t, expired.told).Err.Reason)
	require.Equal(t, recipes.LossSession, await[recipes.Lost](t, asked.told).Err.Reason)
	require.Less(t, time.Since(start), 10*time.Second)

	// and the third one goes on when the network is back
	require.NoError(t, proxy.Pass())
	fine.release()
	require.Zero(t, count[recipes.Lost](fine.told))
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
		require.Less(t, time.Since(start), patience+3*time.Second)
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
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})

	t.Run("from now on", func(t *testing.T) {
		t.Parallel()
		h := shareHouse(t)

		// given a client that is connected, and one that waits
		proxy := netfault.New(t, h.server.Addr())
		c := h.client(behind(proxy))
		holder := h.hold(h.lock(h.client()), "holder")
		require.NoError(t, c.Ready(t.Context()))
		waiting := make(chan struct{})
		var once sync.Once
		require.NoError(t, proxy.Pass())
		err := returns(t, func(ctx context.Context) error {
			go func() {
				<-waiting
				_ = proxy.Blackhole()
			}()
			// when the server goes mute while it waits, or before it asks
			_, err := h.lock(c).Acquire(ctx, recipes.Request{Notify: func(recipes.Notice) { once.Do(func() { close(waiting) }) }})
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
		require.Eventually(t, func() bool { return len(h.contenders()) == 1 }, soon, 5*time.Millisecond)
		holder.release()
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
