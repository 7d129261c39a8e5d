package classic

import (
	"context"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A kind is a recipe that lets one in at a time.
type kind struct {
	name  string
	path  string // of the recipe
	queue string // the directory of those that wait
	in    int    // how many nodes the holder has there
	stays bool   // the directory stays when it is unused

	// open returns how the recipe is acquired. A semaphore mutex has no options.
	open func(f *fixture, c *lock.Client, o options) (acquire, try acquirer)
}

// options are those that recipes share.
type options struct {
	data   string
	within *time.Duration
	notify func(lock.Notice)
}

func (o options) mutex(naming classic.Naming) func(*classic.MutexOptions) {
	return func(m *classic.MutexOptions) {
		m.Naming, m.AcquireTimeout, m.Notify = naming, o.within, o.notify
		if o.data != "" {
			m.Data = []byte(o.data)
		}
	}
}

func mutexKind(name string, naming classic.Naming) kind {
	return kind{name, users, users, 1, naming == classic.NamingKazoo, func(f *fixture, c *lock.Client, o options) (_, _ acquirer) {
		m := f.mutex(c, o.mutex(naming))
		return m.Acquire, m.TryAcquire
	}}
}

func writerKind(name string, naming classic.Naming) kind {
	return kind{name, users, users, 1, naming == classic.NamingKazoo, func(f *fixture, c *lock.Client, o options) (_, _ acquirer) {
		m := f.rwmutex(c, o.mutex(naming))
		return m.AcquireWrite, m.TryAcquireWrite
	}}
}

func permitKind(name, queue string, naming classic.Naming) kind {
	return kind{name, desks, queue, 0, naming == classic.NamingKazoo, func(f *fixture, c *lock.Client, o options) (_, _ acquirer) {
		s := f.semaphore(c, classic.SemaphoreOptions{Limit: 1, Naming: naming, ID: o.data, AcquireTimeout: o.within, Notify: o.notify})
		return s.Acquire, tryOne(s)
	}}
}

func tryOne(s *classic.Semaphore) acquirer {
	return func(ctx context.Context) (*classic.Grant, error) {
		held, err := s.TryAcquire(ctx, 1)
		if err != nil {
			return nil, err
		}
		return held[0], nil
	}
}

var (
	mutexAsCurator = mutexKind("mutex as Curator", classic.NamingCurator)
	permitOfOne    = permitKind("permit as Curator", line, classic.NamingCurator)
)

var kinds = []kind{
	mutexAsCurator, mutexKind("mutex as Kazoo", classic.NamingKazoo),
	writerKind("write side as Curator", classic.NamingCurator), writerKind("write side as Kazoo", classic.NamingKazoo),
	permitOfOne, permitKind("permit as Kazoo", desks+"-__lock__", classic.NamingKazoo),
	{"semaphore mutex", desks, line, 0, false, func(f *fixture, c *lock.Client, _ options) (_, _ acquirer) {
		x, err := classic.NewSemaphoreMutex(c.Client, desks, "")
		require.NoError(f, err)
		return x.Acquire, x.TryAcquire
	}},
}

func eachKind(t *testing.T, test func(t *testing.T, f *fixture, k kind)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, share(t), k)
		})
	}
}

func (k kind) acquire(f *fixture, c *lock.Client, o ...options) acquirer {
	f.Helper()
	acquire, _ := k.open(f, c, append(o, options{})[0])
	return acquire
}

func (k kind) try(f *fixture, c *lock.Client) acquirer {
	f.Helper()
	_, try := k.open(f, c, options{})
	return try
}

// wait requests behind so many others, and returns when the request is in the queue.
func (k kind) wait(f *fixture, name string, c *lock.Client, others int, o ...options) *request {
	f.Helper()
	r := f.ask(name, k.acquire(f, c, o...))
	f.Filled(k.queue, k.in+others+1)
	return r
}

// Curator M1; Kazoo K5, K11, K19; etcd T2; go-zookeeper Z1
func TestRecipeIsHeldUntilItsReleaseAndReleasedOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		acquire, other := k.acquire(f, f.client()), k.try(f, f.client())
		for range 2 {
			// given a path that need not exist
			g, err := acquire(t.Context())
			require.NoError(t, err)
			ctx := g.Context(t.Context())

			// then it is held inside
			require.NoError(t, g.Check())
			require.NoError(t, ctx.Err())
			_, err = other(t.Context())
			notAcquired(t, err)

			// and not after the release
			require.NoError(t, g.Release(t.Context()))
			require.ErrorIs(t, g.Release(t.Context()), lock.ErrReleased)
			require.ErrorIs(t, g.Check(), lock.ErrReleased)
			harness.Receive(t, ctx.Done(), "the context goes on")
			require.ErrorIs(t, context.Cause(ctx), lock.ErrReleased)
			g, err = other(t.Context())
			require.NoError(t, err)
			require.NoError(t, g.Release(t.Context()))
		}
		f.NoEphemerals()
	})
}

// Curator M9, SM1; Kazoo K2, K20; go-zookeeper Z1
func TestWaitersAreGrantedInTheirOrderWithTokensThatGrow(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		// given a holder and four that wait
		clients := []*lock.Client{f.client(), f.client(), f.client()}
		line := []*request{f.hold("0", k.acquire(f, clients[0]))}
		for i := 1; i < 5; i++ {
			line = append(line, k.wait(f, fmt.Sprint(i), clients[i%3], i-1))
		}
		last := lock.Token(0)
		for i, r := range line {
			// then each holds in its turn, and the tokens grow
			r.Granted()
			for _, later := range line[i+1:] {
				later.IsPending()
			}
			require.Greater(t, r.Token(), last)
			last = r.Token()

			// when it is released, by whatever goroutine
			require.NoError(t, f.run(r.Granted().Release).Err())
		}
		f.NoEphemerals()
	})
}

// Kazoo K4, K8, K9, K22; etcd T3; Helix H8
func TestTryOnWhatIsHeldFailsAtOnceAndLeavesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		holder := f.hold("ann", k.acquire(f, f.client(), options{data: "ann"}))

		_, err := k.try(f, f.client())(t.Context())

		busy := notAcquired(t, err)
		require.Equal(t, k.path, busy.Scope)
		require.Zero(t, busy.Waited)
		if k.in > 0 { // else it has no predecessor
			require.Len(t, busy.Holders, 1)
			require.Equal(t, "ann", busy.Holders[0].Owner)
			require.Equal(t, holder.node(), busy.Holders[0].ID)
		}
		require.Equal(t, []string{holder.Path()}, f.Ephemerals())
		require.NoError(t, holder.Granted().Check())
	})
}

// Curator M8, S8, S9, SM2; Kazoo K13, K30
func TestAcquireTimeoutEndsNotEarlierThanItSaysAndLeavesTheHolderAlone(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		c := f.client()
		holder := f.hold("ann", k.acquire(f, c, options{data: "ann"}))
		limit := 100 * time.Millisecond

		// when the same client, which is a stranger to itself, waits for so long
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := k.acquire(f, c)(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), limit)

		if k.name != "semaphore mutex" {
			other := f.client()
			require.NoError(t, other.Ready(t.Context()))
			_, err = k.acquire(f, other, options{within: &limit})(t.Context())
			late := notAcquired(t, err)
			require.GreaterOrEqual(t, late.Waited, limit)
		}

		// then the holder is alone, and the next is granted
		require.NoError(t, holder.Granted().Check())
		harness.Eventually(t, func() bool { return len(f.Ephemerals()) == 1 }, "the one that left has a node")
		holder.Release()
		f.hold("ann", k.try(f, c))
	})
}

// Curator S12; Kazoo K6, K24, K29
func TestWaiterThatIsCancelledLeavesTheLine(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		c := f.client()
		holder := f.hold("ann", k.acquire(f, f.client()))
		waiter, next := k.wait(f, "bob", c, 0), k.wait(f, "eve", f.client(), 1)

		waiter.Cancel()

		require.ErrorIs(t, waiter.Refused(), context.Canceled)
		f.Filled(k.queue, k.in+1)
		require.NoError(t, holder.Granted().Check())
		next.IsPending()
		_, err := k.acquire(f, c)(cancelled())
		require.ErrorIs(t, err, context.Canceled)
		again := k.wait(f, "bob", c, 1)
		holder.Release()
		next.Release()
		again.Release()
		f.NoEphemerals()
	})
}

// Curator M3, S3; Kazoo K3, K26; etcd T1
func TestWaiterOfTheSessionThatEndsStandsInLineAnewAndIsGrantedLater(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		// given a holder and a waiter of one session, and a waiter of another
		c := f.client()
		holder := f.hold("ann", k.acquire(f, c))
		notices := f.listen("bob")
		waiter := k.wait(f, "bob", c, 0, options{notify: notices.Add})
		if k.name != "semaphore mutex" {
			harness.Await[lock.Queued](t, notices)
		}
		next := k.wait(f, "eve", f.client(), 1)

		// when the session ends
		id := f.Expire(c)

		// then its hold is lost, and its waiter stands behind the other
		require.Equal(t, lock.LossSession, holder.Lost().Reason)
		lossOf(t, holder.Granted().Release(t.Context()))
		if k.name != "semaphore mutex" {
			harness.Await[lock.Requeued](t, notices)
		}
		next.Granted()
		f.Filled(k.queue, k.in+1)
		waiter.IsPending()
		next.Release()
		_, stat := f.Get(waiter.Path())
		require.NotEqual(t, id, stat.EphemeralOwner)
		waiter.Release()
		f.NoEphemerals()
	})
}

// Curator M4, M6, S7; Kazoo K10: one object serves many.
func TestCrowdIsInsideOneAtATimeAndItsDirectoriesDisappear(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		acquire := []acquirer{k.acquire(f, f.client()), k.acquire(f, f.client())}
		var inside harness.Occupancy

		harness.Together(t, 20, func(ctx context.Context, i int) error {
			for range 2 {
				if err := visit(ctx, acquire[i%2], &inside, fmt.Sprint(i)); err != nil {
					return err
				}
			}
			return nil
		})

		inside.WasExclusive(t, 40)
		f.NoEphemerals()
		if k.stays { // Kazoo's locks need their directory to stay
			elsewhere, err := classic.NewMutex(f.client().Client, "/elsewhere/mutex", classic.MutexOptions{})
			require.NoError(t, err)
			f.hold("a container", elsewhere.Acquire).Release()
			f.Gone("/elsewhere") // the server has swept since
			require.True(t, f.Exists(k.queue))
			return
		}
		f.Gone(k.path)
		f.Gone(path.Dir(k.path))
	})
}

// Curator S3; Helix H9
func TestClientThatHoldsOrWaitsIsNotClosed(t *testing.T) {
	eachKind(t, func(t *testing.T, f *fixture, k kind) {
		c, waiting := f.client(), f.client()
		holder := f.hold("ann", k.acquire(f, c))
		waiter := k.wait(f, "bob", waiting, 0)
		var busy *lock.BusyError
		require.ErrorAs(t, c.Close(t.Context()), &busy)
		require.Equal(t, []string{k.path}, busy.Held)
		require.ErrorAs(t, waiting.Close(t.Context()), &busy)
		require.Equal(t, []string{k.path}, busy.Requested)
		holder.Release()
		waiter.Release()
		require.NoError(t, c.Close(t.Context()))
		_, err := k.acquire(f, c)(t.Context())
		require.ErrorIs(t, err, lock.ErrClosed)
	})
}

// Curator M2, S1
func TestThoseThatContendFinishWhenTheServerStopsAndStartsAgain(t *testing.T) {
	t.Parallel()
	f := alone(t)
	var holders, waiters []*request
	contenders := []kind{mutexAsCurator, kinds[len(kinds)-1]}
	for _, k := range contenders {
		holders = append(holders, f.hold("ann", k.acquire(f, f.client())))
		waiters = append(waiters, k.wait(f, "bob", f.client(), 0))
	}

	require.NoError(t, f.Server.Stop())
	require.NoError(t, f.Server.Restart(t.Context()))

	for i := range contenders {
		require.NoError(t, holders[i].Granted().Check())
		waiters[i].IsPending()
		token := holders[i].Token()
		holders[i].Release()
		require.Greater(t, waiters[i].Token(), token)
		waiters[i].Release()
	}
	f.NoEphemerals()
}

// N5
func TestHolderThatIsCutOffLosesBeforeTheNextIsGranted(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{mutexAsCurator, permitOfOne} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			c, network := f.remote(lenient)
			notices := f.listen("ann")
			holder := f.hold("ann", k.acquire(f, c, options{notify: notices.Add}))
			waiter := k.wait(f, "bob", f.client(), 0)
			granted := make(chan time.Time, 1)
			go func() {
				<-waiter.Done()
				granted <- time.Now()
			}()

			// when its connection falls silent
			require.NoError(t, network.Blackhole())

			// then it learns of the risk and of the loss, before the next is granted
			require.Equal(t, lock.LossSession, holder.Lost().Reason)
			harness.Await[lock.AtRisk](t, notices)
			_, lost := harness.AwaitAt[lock.Lost](t, notices)
			waiter.Granted()
			require.True(t, lost.Before(<-granted))
			require.NoError(t, network.Pass())
		})
	}
}

// N2
func TestWaiterWhoseNodeIsDeletedIsNotGranted(t *testing.T) {
	t.Parallel()
	f := share(t)
	holder := f.hold("ann", f.mutex(f.client()).Acquire)
	victim, next := f.queue("bob", f.client()), f.queue("eve", f.client())

	f.Delete(users + "/" + f.Filled(users, 3)[1])
	next.IsPending()
	holder.Release()

	var evicted *lock.EvictedError
	require.ErrorAs(t, victim.Refused(), &evicted)
	require.Equal(t, users, evicted.Scope)
	next.Granted()
}

// Curator S11
func TestWaiterForAPermitWhoseNodeIsDeletedQueuesAgainAndAcquires(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"first in line", "behind another"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			f, k := share(t), permitOfOne
			holder := f.hold("holder", k.acquire(f, f.client()))
			waiters := []*request{k.wait(f, "first", f.client(), 0)}
			node := f.Filled(k.queue, 1)[0]
			f.Watched(k.queue+"/"+node, 1)
			if place == "behind another" {
				waiters = append(waiters, k.wait(f, "second", f.client(), 1))
				f.Watched(k.queue+"/"+node, 2)
				node = f.Filled(k.queue, 2)[1]
			}

			// when an administrator deletes the waiter's node
			f.Delete(k.queue + "/" + node)
			if place == "first in line" { // it notices at once
				require.NotEqual(t, node, f.Filled(k.queue, 1)[0])
			}

			// then it acquires all the same
			holder.Release()
			for _, w := range waiters {
				w.Release()
			}
			f.NoEphemerals()
		})
	}
}
