package classic

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const gate = "/gates/gate"

func (f *fixture) barrier(c *lock.Client) *classic.Barrier {
	f.Helper()
	b, err := classic.NewBarrier(c.Client, gate)
	require.NoError(f, err)
	return b
}

func TestWaitersPassWhenTheBarrierIsRemoved(t *testing.T) {
	t.Parallel()
	f := share(t)
	owner, first, second := f.client(), f.client(), f.client()
	require.NoError(t, f.barrier(second).Wait(t.Context()), "no wait without a barrier")
	require.Empty(t, f.Watches(), "a watch on what is not there would stay")

	// given a barrier, set twice, at which three wait in two processes
	require.NoError(t, f.barrier(owner).Set(t.Context()))
	require.NoError(t, f.barrier(first).Set(t.Context()))
	waiters := []*harness.Running{f.run(f.barrier(first).Wait), f.run(f.barrier(first).Wait), f.run(f.barrier(second).Wait)}
	f.Watched(gate, 2)
	for _, w := range waiters {
		w.IsPending()
	}

	// when it is removed
	require.NoError(t, f.barrier(owner).Remove(t.Context()))

	// then all pass, and so does a later client
	for _, w := range waiters {
		w.Granted()
	}
	require.NoError(t, f.barrier(second).Wait(t.Context()))
	require.NoError(t, f.barrier(second).Remove(t.Context()))
	require.Empty(t, f.Watches())
}

// While ZooKeeper answers, and while it is silent.
func TestWaitAtABarrierEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, network := f.remote()
	require.NoError(t, f.barrier(c).Set(t.Context()))
	for _, silent := range []bool{false, true} {
		w := f.run(f.barrier(c).Wait)
		f.Watched(gate, 1)
		if silent {
			require.NoError(t, network.Blackhole())
		}
		w.Cancel()
		require.ErrorIs(t, w.Err(), context.Canceled)
		require.ErrorIs(t, f.barrier(c).Wait(cancelled()), context.Canceled)
	}
	require.NoError(t, network.Pass())
}

func TestWaitAtABarrierOutlivesItsSessionAndItsConnection(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"session", "connection"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			owner := f.barrier(f.client())
			c, network := f.remote()
			require.NoError(t, owner.Set(t.Context()))
			w := f.run(f.barrier(c).Wait)
			f.Watched(gate, 1)

			if lost == "session" { // it waits in the next
				f.Renewed(c)
				f.Watched(gate, 1)
				w.IsPending()
			} else { // and notices what happens meanwhile
				require.NoError(t, network.Cut())
			}
			require.NoError(t, owner.Remove(t.Context()))
			require.NoError(t, network.Pass())

			w.Granted()
		})
	}
}

func TestBarrierWithoutAServerSaysSo(t *testing.T) {
	t.Parallel()
	c := harness.NewClient(t, lock.Config{Servers: []string{"127.0.0.1:1"}, ConnectTimeout: 50 * time.Millisecond})
	b, err := classic.NewBarrier(c.Client, "/gate")
	require.NoError(t, err)
	require.ErrorAs(t, b.Set(t.Context()), new(*lock.UnavailableError))
	require.ErrorAs(t, b.Wait(t.Context()), new(*lock.UnavailableError))
}

func TestClassicRecipesRefuseWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	c := harness.NewClient(t, lock.Config{Servers: []string{"127.0.0.1:1"}})
	later := -time.Second
	one, err := classic.NewSemaphore(c.Client, "/s", permits(1))
	require.NoError(t, err)
	election := func(path string, policy classic.ElectionPolicy) error {
		_, err := classic.NewElection(c.Client, path, "a", classic.ElectionOptions{Policy: policy})
		return err
	}
	semaphore := func(path string, o classic.SemaphoreOptions) error {
		_, err := classic.NewSemaphore(c.Client, path, o)
		return err
	}
	barrier := func(path string, members int) error {
		_, err := classic.NewDoubleBarrier(c.Client, path, members)
		return err
	}
	gate := func(path string) error { _, err := classic.NewBarrier(c.Client, path); return err }
	draw := func(n int) error { _, err := one.AcquireN(t.Context(), n); return err }
	for name, err := range map[string]error{
		"barrier with a relative path":      gate("gate"),
		"barrier in ZooKeeper's own":        gate("/zookeeper/gate"),
		"double barrier without members":    barrier("/gate", 0),
		"double barrier at the root":        barrier("/", 1),
		"election with an unknown policy":   election("/x", "mild"),
		"election with a relative path":     election("x", ""),
		"semaphore without permits":         semaphore("/s", permits(0)),
		"semaphore with a bad path":         semaphore("/s/", permits(1)),
		"semaphore with a bad limit path":   semaphore("/s", classic.SemaphoreOptions{LimitPath: "n"}),
		"semaphore with an unknown naming":  semaphore("/s", classic.SemaphoreOptions{Limit: 1, Naming: 7}),
		"Kazoo's with a limit path":         semaphore("/s", classic.SemaphoreOptions{Limit: 1, Naming: classic.NamingKazoo, LimitPath: "/n"}),
		"semaphore with a negative timeout": semaphore("/s", classic.SemaphoreOptions{Limit: 1, AcquireTimeout: &later}),
		"more permits than there are":       draw(2),
		"no permit":                         draw(0),
		"a new limit without a barrier":     one.SetLimit(t.Context(), 2),
	} {
		require.ErrorAs(t, err, new(*lock.RequestError), name)
	}
}
