package classic

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func (h *house) barrier(c *recipes.Client) *recipes.Barrier {
	h.t.Helper()
	b, err := c.Barrier("/gates/gate")
	require.NoError(h.t, err)
	return b
}

// A call is something that goes on in the background and may fail.
type call struct {
	t      testing.TB
	done   chan struct{}
	err    error
	cancel context.CancelFunc
}

// begin calls f in the background. Its context ends with the test at the latest.
func (h *house) begin(f func(ctx context.Context) error) *call {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{t: h.t, done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.done)
		c.err = f(ctx)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-c.done
	})
	return c
}

// ended waits for the end and returns the error.
func (c *call) ended() error {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(soon):
		require.FailNow(c.t, "the call has not returned")
	}
	return c.err
}

// goesOn fails the test if the call has ended.
func (c *call) goesOn() {
	c.t.Helper()
	select {
	case <-c.done:
		require.FailNow(c.t, "the call does not wait any more", "error: %v", c.err)
	default:
	}
}

// becomesWatched waits until somebody watches a node.
func (h *house) becomesWatched(p string, n int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		found := 0
		for _, w := range h.watched() {
			if w == p {
				found++
			}
		}
		return found >= n
	}, soon, 2*time.Millisecond, "%s is not watched %d times", p, n)
}

func TestWaitersPassWhenTheBarrierIsRemoved(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	owner, first, second := h.client(), h.client(), h.client()

	// given a barrier, set twice, at which three wait in two processes
	require.NoError(t, h.barrier(owner).Set(t.Context()))
	require.NoError(t, h.barrier(first).Set(t.Context()))
	waiters := []*call{h.begin(h.barrier(first).Wait), h.begin(h.barrier(first).Wait), h.begin(h.barrier(second).Wait)}
	h.becomesWatched("/gates/gate", 2)
	for _, w := range waiters {
		w.goesOn()
	}

	// when it is removed
	require.NoError(t, h.barrier(owner).Remove(t.Context()))

	// then all pass, and whoever comes later as well
	for _, w := range waiters {
		require.NoError(t, w.ended())
	}
	require.NoError(t, h.barrier(second).Wait(t.Context()))
	require.NoError(t, h.barrier(second).Remove(t.Context()))
	require.Empty(t, h.watched())
}

func TestNobodyWaitsWhereNoBarrierStands(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	require.NoError(t, h.barrier(h.client()).Wait(t.Context()))
	require.Empty(t, h.watched(), "a watch on what is not there would stay")
}

func TestWaitAtABarrierEndsWithItsContext(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	require.NoError(t, h.barrier(c).Set(t.Context()))

	t.Run("while ZooKeeper answers", func(t *testing.T) {
		w := h.begin(h.barrier(c).Wait)
		h.becomesWatched("/gates/gate", 1)
		w.cancel()
		require.ErrorIs(t, w.ended(), context.Canceled)
	})

	t.Run("while it is silent", func(t *testing.T) {
		network := netfault.New(t, h.server.Addr())
		far := h.client(behind(network))
		require.NoError(t, far.Ready(t.Context()))
		require.NoError(t, network.Blackhole())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, h.barrier(far).Wait(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(start), soon)
		require.NoError(t, network.Pass())
	})
}

func behind(p *netfault.Proxy) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Servers = []string{p.Addr()} }
}

func TestWaitAtABarrierOutlivesItsSession(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	owner, c := h.client(), h.client()
	require.NoError(t, h.barrier(owner).Set(t.Context()))
	w := h.begin(h.barrier(c).Wait)
	h.becomesWatched("/gates/gate", 1)

	// when the waiter's session ends
	dead := h.expire(c)
	require.Eventually(t, func() bool { id, _ := c.Session(); return id != 0 && id != dead }, soon, time.Millisecond)
	h.becomesWatched("/gates/gate", 1)
	w.goesOn()

	// then it waits in the next
	require.NoError(t, h.barrier(owner).Remove(t.Context()))
	require.NoError(t, w.ended())
}

func TestBarrierRemovedWhileAWaiterIsCutOffIsNoticedLater(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	network := netfault.New(t, h.server.Addr())
	owner, c := h.client(), h.client(behind(network))
	require.NoError(t, h.barrier(owner).Set(t.Context()))
	w := h.begin(h.barrier(c).Wait)
	h.becomesWatched("/gates/gate", 1)

	require.NoError(t, network.Cut())
	require.NoError(t, h.barrier(owner).Remove(t.Context()))
	require.NoError(t, network.Pass())

	require.NoError(t, w.ended())
}

func TestBarrierWithoutAServerSaysSo(t *testing.T) {
	t.Parallel()
	c, err := recipes.NewClient(recipes.Config{Servers: []string{"127.0.0.1:1"}, ConnectTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
	b, err := c.Barrier("/gate")
	require.NoError(t, err)
	var unavailable *recipes.UnavailableError
	require.ErrorAs(t, b.Set(t.Context()), &unavailable)
	require.ErrorAs(t, b.Wait(t.Context()), &unavailable)
}

func TestClassicRecipesRefuseWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	c, err := recipes.NewClient(recipes.Config{Servers: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
	later := -time.Second
	for name, attempt := range map[string]func() error{
		"barrier with a relative path":     func() error { _, err := c.Barrier("gate"); return err },
		"barrier in ZooKeeper's own":       func() error { _, err := c.Barrier("/zookeeper/gate"); return err },
		"double barrier without members":   func() error { _, err := c.DoubleBarrier("/gate", 0); return err },
		"double barrier at the root":       func() error { _, err := c.DoubleBarrier("/", 1); return err },
		"election with an unknown policy":  func() error { _, err := c.Election("/x", "a", recipes.ElectionOptions{Policy: "mild"}); return err },
		"election with a relative path":    func() error { _, err := c.Election("x", "a", recipes.ElectionOptions{}); return err },
		"semaphore without permits":        func() error { _, err := c.Semaphore("/s", recipes.SemaphoreOptions{}); return err },
		"semaphore with a bad path":        func() error { _, err := c.Semaphore("/s/", recipes.SemaphoreOptions{Limit: 1}); return err },
		"semaphore with a bad limit path":  func() error { _, err := c.Semaphore("/s", recipes.SemaphoreOptions{LimitPath: "n"}); return err },
		"semaphore with an unknown naming": func() error { _, err := c.Semaphore("/s", recipes.SemaphoreOptions{Limit: 1, Naming: 7}); return err },
		"Kazoo's with a limit path": func() error {
			_, err := c.Semaphore("/s", recipes.SemaphoreOptions{Limit: 1, Naming: recipes.NamingKazoo, LimitPath: "/n"})
			return err
		},
		"semaphore with a negative timeout": func() error {
			_, err := c.Semaphore("/s", recipes.SemaphoreOptions{Limit: 1, AcquireTimeout: &later})
			return err
		},
		"semaphore mutex with a relative path": func() error { _, err := c.SemaphoreMutex("s", ""); return err },
		"more permits than there are": func() error {
			s, err := c.Semaphore("/s", recipes.SemaphoreOptions{Limit: 1})
			require.NoError(t, err)
			_, err = s.AcquireN(t.Context(), 2)
			return err
		},
		"no permit": func() error {
			s, err := c.Semaphore("/s", recipes.SemaphoreOptions{Limit: 1})
			require.NoError(t, err)
			_, err = s.AcquireN(t.Context(), 0)
			return err
		},
		"a new limit for nobody": func() error {
			s, err := c.Semaphore("/s", recipes.SemaphoreOptions{Limit: 1})
			require.NoError(t, err)
			return s.SetLimit(t.Context(), 2)
		},
	} {
		var bad *recipes.RequestError
		require.ErrorAs(t, attempt(), &bad, name)
	}
}
