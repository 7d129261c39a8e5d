package locks

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// open lets two readers have the lock: from then on others may walk in. The lock node is
// that of the scope "users".
func (f *fixture) open() (readers []*harness.Request, node string) {
	f.Helper()
	for i := range 2 {
		readers = append(readers, f.Hold(f.lock(f.Client()), fmt.Sprint("opener ", i), harness.Shared))
	}
	return readers, lockNode(readers[0])
}

// walker has somebody walk in.
func (f *fixture) walker(c *lock.Client, owner string, change ...func(*lock.Request)) *harness.Request {
	f.Helper()
	u := f.Hold(f.lock(c), owner, append([]func(*lock.Request){harness.Shared}, change...)...)
	require.Contains(f, path.Base(u.Node()), "-w-")
	return u
}

// version is that of a node.
func version(t testing.TB, shell *zk.Conn, node string) int32 {
	t.Helper()
	_, stat, err := shell.Get(node)
	require.NoError(t, err)
	return stat.Version
}

func TestReadersThatWalkInLeaveTheLockNodeAlone(t *testing.T) {
	h := share(t)
	openers, node := h.open()
	shell := h.Shell()
	before := version(t, shell, node)

	// when others come and go, also after those who have opened it
	var all sync.WaitGroup
	for i := range 3 {
		l := h.lock(h.Client())
		all.Go(func() {
			for n := range 40 {
				u := h.Hold(l, fmt.Sprintf("reader %d.%d", i, n), harness.Shared)
				u.Release()
			}
		})
	}
	for _, u := range openers {
		u.Release()
	}
	all.Wait()

	// then no client has written the lock node, and the next one finds it open
	require.Equal(t, before, version(t, shell, node))
	last := h.walker(h.Client(), "last")
	h.heldBy(h.Client(), "last")
	require.Equal(t, before, version(t, shell, node))

	// and a writer that comes then waits for that one alone, and has a later token
	w := h.queued("writer")
	w.IsPending()
	require.Greater(t, version(t, shell, node), before)
	token := last.Token()
	last.Release()
	require.Greater(t, w.Token(), token)
}

func TestTokensOfReadersThatWalkInGrow(t *testing.T) {
	h := share(t)
	openers, _ := h.open()
	last := max(openers[0].Token(), openers[1].Token())
	a, b := h.Client(), h.Client()
	for i := range 5 {
		for _, c := range []*lock.Client{a, b} {
			u := h.walker(c, fmt.Sprint("reader ", i))
			require.Greater(t, u.Token(), last)
			last = u.Token()
			u.Release()
		}
	}
}

func TestForcefulWriterTakesOverFromReadersThatHaveWalkedIn(t *testing.T) {
	h := share(t)
	openers, _ := h.open()
	readers := append(openers, h.walker(h.Client(), "first"), h.walker(h.Client(), "second"))

	w := h.acquire("w", harness.At(5), harness.Forceful)
	w.Granted()
	require.Len(t, harness.Await[lock.TakenOver](h, w.Notices).From, 4)
	for _, r := range readers {
		lost := r.Lost()
		require.Equal(t, lock.LossTaken, lost.Err.Reason)
		require.Equal(t, "w", lost.Err.By)
	}
	h.heldBy(h.Client(), "w")
}

func TestReaderThatHasWalkedInEndsInEveryWay(t *testing.T) {
	t.Parallel()
	ends := map[string]func(h *fixture, mortal *lock.Client, u *harness.Request){
		"its session expires": func(h *fixture, mortal *lock.Client, u *harness.Request) {
			h.Expire(mortal)
			require.Equal(h, lock.LossSession, u.Lost().Err.Reason)
		},
		"an operator breaks its hold": func(h *fixture, _ *lock.Client, u *harness.Request) {
			h.breakHold(u.Token())
			require.Equal(h, lock.LossBroken, u.Lost().Err.Reason)
		},
		"an administrator deletes its node": func(h *fixture, _ *lock.Client, u *harness.Request) {
			require.NoError(h, h.Shell().Delete(u.Node(), -1))
			require.Equal(h, lock.LossDeleted, u.Lost().Err.Reason)
		},
		"it leaves": func(_ *fixture, _ *lock.Client, u *harness.Request) { u.Release() },
	}
	for how, end := range ends {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a writer waits: %t", how, waits), func(t *testing.T) {
				h := share(t)
				openers, _ := h.open()
				mortal := h.Client()
				u, other := h.walker(mortal, "mortal"), h.walker(h.Client(), "other")
				for _, o := range openers {
					o.Release()
				}
				var w *harness.Request
				if waits {
					w = h.queued("w")
				}
				end(h, mortal, u)

				// then the other one holds on, and the writer comes after that
				if !waits {
					w = h.queued("w")
				}
				w.IsPending()
				require.NoError(t, other.Granted().Check())
				h.heldBy(h.Client(), "other")
				other.Release()
				w.Granted()
			})
		}
	}
}

// What has to be written into the lock node cannot be said by one that walks in.
func TestWhoMustBeNamedDoesNotWalkIn(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*lock.Request){
		"lock-delay": delayed(10 * time.Minute),
		"hold id":    func(r *lock.Request) { r.Hold = "hold" },
	} {
		t.Run(what, func(t *testing.T) {
			h := share(t)
			openers, node := h.open()
			walked := h.walker(h.Client(), "walked")
			mortal := h.Client()
			named := h.Hold(h.lock(mortal), "named", harness.Shared, change)
			require.Contains(t, path.Base(named.Node()), "-s-")
			data, _ := h.Get(node)
			require.Contains(t, string(data), named.Granted().ID())
			require.NotContains(t, string(data), `"open"`)

			// then it ends without a word: the others hold on, and a lock-delay is minded
			h.Expire(mortal)
			onlooker := h.Client()
			harness.Eventually(t, func() bool { return len(h.state(onlooker).Holders) == 3 }, "the dead one has gone")
			for _, u := range append(openers, walked) {
				require.NoError(t, u.Granted().Check())
				u.Release()
			}
			_, err := h.acquire("writer", harness.Try).Wait()
			require.Equal(t, what == "lock-delay", lock.IsNotAcquired(err), "%v", err)
		})
	}
}

// A request that finds an open lock acquires it: exclusively or shared.
func TestLockThatWasLeftOpenIsTaken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lock.Request){"a writer": func(*lock.Request) {}, "a reader": harness.Shared, "a reader with a delay": func(r *lock.Request) {
		harness.Shared(r)
		r.LockDelay = time.Millisecond
	}} {
		t.Run(name, func(t *testing.T) {
			h := share(t)
			openers, node := h.open()
			knows := h.Client()
			h.walker(knows, "walker").Release()
			for _, u := range openers {
				u.Release()
			}
			u := h.hold("next", change, harness.Try)
			later := h.Acquire(h.lock(knows), "reader", harness.Shared)
			if name == "a writer" {
				later.Queued()
			} else {
				later.Granted()
			}
			u.Release()
			later.Release()
			data, _ := h.Get(node)
			require.Equal(t, name == "a reader", strings.Contains(string(data), `"open"`), string(data))
		})
	}
}

// A writer that shares its lock has the name of one that does not: readers walk in when it has left.
func TestReadersOpenALockThatAWriterHasSharedWhenThatHasLeft(t *testing.T) {
	h := share(t)
	w := h.hold("writer", harness.Lease(time.Hour))
	require.NoError(t, w.Granted().Downgrade(t.Context()))
	var named []*harness.Request
	for i := range 2 {
		u := h.hold(fmt.Sprint("beside the writer ", i), harness.Shared)
		require.NotContains(t, path.Base(u.Node()), "-w-")
		named = append(named, u)
	}
	w.Release()
	opener := h.hold("opener", harness.Shared)
	walker := h.walker(h.Client(), "walker")
	require.Len(t, h.state(h.Client()).Holders, 4)

	// then the next writer waits for all of them
	next := h.acquire("next")
	for _, u := range append(named, opener, walker) {
		next.IsPending()
		require.NoError(t, u.Granted().Check())
		u.Release()
	}
	next.Granted()
}

// Its lease is its own, and so is what it is asked for.
func TestReaderThatHasWalkedInExtendsItsLease(t *testing.T) {
	h := share(t)
	openers, node := h.open()
	before := version(t, h.Shell(), node)
	u := h.walker(h.Client(), "walker", harness.Lease(time.Hour))
	token := u.Token()
	require.NoError(t, u.Granted().Extend(t.Context(), 3*time.Hour))
	for _, o := range openers {
		o.Release()
	}
	state := h.state(h.Client())
	require.Equal(t, []string{"walker"}, harness.Owners(state.Holders))
	require.Equal(t, 3*time.Hour, state.Holders[0].LeaseTimeout)
	require.Greater(t, state.Holders[0].LeaseLeft, 2*time.Hour)
	require.Equal(t, token, state.Holders[0].Token)
	require.Equal(t, before, version(t, h.Shell(), node))

	// while it is preempted, it may not
	w := h.acquire("w", harness.At(5))
	harness.Await[lock.PreemptRequested](h, u.Notices)
	require.Error(t, u.Granted().Extend(t.Context(), 4*time.Hour))
	u.Release()
	w.Granted()
}
