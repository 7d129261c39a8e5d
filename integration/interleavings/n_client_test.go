package interleavings

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N8. It looks at the memory of the process, so nothing runs beside it, no
// referee either. The real server's turn is in package locks.
func TestTenThousandTriesLeaveMemoryFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a held lock, and a client that has tried so often that the server's trace is full
		z := zktest.RunT(t, zktest.Pipe())
		var locks []*recipes.PriorityLock
		for _, name := range []string{"H", "A"} {
			c, err := recipes.NewClient(recipes.Config{Dialer: z.Dialer(name)})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
			lock, err := c.PriorityLock(users)
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		held, err := locks[0].Acquire(t.Context(), recipes.Request{Priority: 5})
		require.NoError(t, err)
		tries := func(n int) {
			for i := range n {
				_, err := locks[1].Acquire(t.Context(), recipes.Request{Priority: priority.Level(i % 9), AcquireTimeout: new(time.Duration(0))})
				require.True(t, recipes.IsNotAcquired(err), "try %d: %v", i, err)
			}
		}
		tries(2000)
		synctest.Wait()
		goroutines, watches, before := runtime.NumGoroutine(), z.Watches(), heap()

		// when it tries ten thousand times
		tries(10_000)
		synctest.Wait()

		// then nothing has grown, on either side
		grown := heap() - before
		t.Logf("the heap of %d KiB grew by %d bytes", before>>10, grown)
		require.Less(t, grown, int64(128<<10), "13 bytes a try")
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		require.Equal(t, watches, z.Watches())
		require.NoError(t, held.Release(t.Context()))
	})
}

// heap returns how many bytes live after a collection.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what is freed by a finalizer, or from a pool, goes later
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// N9: a server that accepts connections and says nothing, from the first one on
// or from now on.
func TestAcquireReturnsAtItsDeadlineThoughTheServerIsMute(t *testing.T) {
	const deadline = 700 * time.Millisecond
	const leaving = 500 * time.Millisecond // how long it tries to take back what it has asked for
	for name, begin := range map[string]func(w *world) (c *client, end func()){
		"from the first connection on": func(w *world) (*client, func()) {
			mute := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			return w.connecting("A"), mute.Release
		},
		"once it is connected": func(w *world) (*client, func()) {
			c := w.client("A")
			w.Partition("A")
			return c, func() { w.Heal("A") }
		},
		"after the request has gone out": func(w *world) (*client, func()) {
			return w.client("A"), w.On(T1(users).From("A")).HoldReply().Release
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(w *world) {
				w.client("onlooker")
				c, end := begin(w)
				lock := c.lock(users)
				for _, bound := range []string{"context", "acquire timeout"} {
					// when somebody acquires with a deadline
					start := w.elapsed()
					ctx, r := w.Context(), recipes.Request{}
					if bound == "context" {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, deadline)
						defer cancel()
					} else {
						r.AcquireTimeout = new(deadline)
					}
					_, err := lock.Acquire(ctx, r)
					took := w.elapsed() - start

					// then it ends there, with a moment to leave, and says why
					if bound == "context" {
						require.ErrorIs(w, err, context.DeadlineExceeded)
					} else {
						var refused *recipes.NotAcquiredError
						require.ErrorAs(w, err, &refused)
						var gone *recipes.UnavailableError
						require.ErrorAs(w, err, &gone)
					}
					require.GreaterOrEqual(w, took, deadline)
					if w.z != nil {
						require.LessOrEqual(w, took, deadline+leaving)
					}
					require.Less(w, took, deadline+leaving+3*time.Second)
				}

				// and nothing of it is left once the server speaks again
				end()
				require.NoError(w, c.Ready(w.Context()))
				w.eventually("nothing is left", func() bool { return len(w.admin.contenders(w.root)) == 0 })
			})
		})
	}
}

// connecting is client, for one that need not get through.
func (w *world) connecting(name string) *client {
	w.Helper()
	raw, err := recipes.NewClient(recipes.Config{Dialer: w.Dialer(name), Root: w.root, SessionTimeout: 10 * time.Second})
	require.NoError(w, err)
	c := &client{Client: raw, w: w, name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[name] = c
	w.order = append(w.order, c)
	return c
}

// N15: the connection breaks over the credentials, which each connection shows
// anew: they do not arrive, or are not answered.
func TestClientRecoversFromAConnectionThatBreaksOverItsCredentials(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that holds a lock and waits for another, of which others see nothing
		c := w.client("A", func(cfg *recipes.Config) {
			cfg.Auth = &recipes.Digest{User: "ana", Password: "s3cret"}
			cfg.Root += "-private"
		})
		held := c.ask(users, "held", at(5))
		held.granted()
		waits := c.ask(users, "waits", at(1))
		waits.queued()
		id, _ := c.Session()

		// when its connections break, and the next ones as it shows its credentials
		lost := w.On(zktest.Op(zktest.Auth).From("A").Nth(1)).DropRequest()
		unanswered := w.On(zktest.Op(zktest.Auth).From("A").Nth(2)).DropReply()
		w.disconnect("A")
		w.reached(lost)
		w.reached(unanswered)

		// then it recovers, in its session, and goes on with what it has
		require.NoError(w, c.Ready(w.Context()))
		again, _ := c.Session()
		require.Equal(w, id, again)
		require.NoError(w, held.grant.Check())
		held.release()
		require.Greater(w, waits.token(), held.token())
	})
}
