package classic

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestHolderWhoseNodeIsDeletedLearnsThatItHasLost(t *testing.T) {
	t.Parallel()
	f := share(t)
	notices := f.listen("ann")
	holder := f.hold("ann", f.mutex(f.client(), telling(notices)).Acquire)
	ctx := holder.Granted().Context(t.Context())
	token := holder.Token()
	waiter := f.queue("bob", f.client())

	f.Delete(holder.Path())

	loss := harness.Await[lock.Lost](t, notices).Err
	require.Equal(t, lock.LossDeleted, loss.Reason)
	require.Equal(t, users, loss.Scope)
	require.Equal(t, token, loss.Token)
	harness.Receive(t, ctx.Done(), "the context goes on")
	require.ErrorIs(t, context.Cause(ctx), loss)
	require.ErrorIs(t, holder.Granted().Release(t.Context()), loss)
	waiter.Granted()
}

// A hold that is shorter than it takes to hear of anything finds out at its release.
func TestReleaseOfANodeThatWasDeletedIsALoss(t *testing.T) {
	t.Parallel()
	for name, lasting := range map[string]bool{"of a session": false, "persistent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := share(t)
			c, proxy := f.proxied()
			r := f.hold("ann", f.mutex(c, func(o *classic.MutexOptions) { o.Persistent = lasting }).Acquire)
			r.Token()

			// when the node is deleted a moment before
			deleting := proxy.On(f.on(zktest.Delete, r.Path()).Nth(1)).Hold()
			release := f.run(r.Granted().Release)
			reached(t, deleting)
			f.Delete(r.Path())
			deleting.Release()

			require.Equal(t, lock.LossDeleted, lossOf(t, release.Err()).Reason)
		})
	}
}

// N1
func TestNodeIsNeverCreatedInAnotherSessionThanItWasAskedForIn(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()
	f.Create(users, nil, 0)

	// when the session ends right before the node is created
	creating := proxy.On(f.on(zktest.Create, users+"/*").Nth(1)).Hold()
	r := f.ask("ann", f.mutex(c).Acquire)
	reached(t, creating)
	f.Expire(c)
	creating.Release()

	// then what is held is a node of the present session, and the only one
	path := r.Path()
	if !f.Exists(path) {
		// Apache's server is asked by another connection of the session to close it: the client may have been back, and
		// granted, before that.
		harness.Receive(t, r.Granted().Context(t.Context()).Done(), "the loss of the lock")
		require.Empty(t, f.Children(users))
		return
	}
	_, stat := f.Get(path)
	now, _ := c.Session()
	require.Equal(t, now, stat.EphemeralOwner)
	require.Len(t, f.Children(users), 1)
}

// N9
func TestAcquireReturnsAtItsDeadlineFromAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c := harness.NewClient(t, lock.Config{Servers: []string{listener.Addr().String()}})
	m, err := classic.NewMutex(c.Client, users, classic.MutexOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	_, err = m.Acquire(ctx)

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorAs(t, err, new(*lock.UnavailableError))
}

func TestHolderIsAskedToReleaseAndToldOnceAndMayReleaseAtOnce(t *testing.T) {
	t.Parallel()
	f := share(t)
	held, released := make(chan *classic.Grant, 1), make(chan error, 1)
	r := f.hold("ann", f.mutex(f.client(), func(o *classic.MutexOptions) {
		o.Notify = func(n lock.Notice) {
			if _, ok := n.(lock.PreemptRequested); ok {
				released <- (<-held).Release(context.Background())
			}
		}
	}).Acquire)
	held <- r.Granted()
	waiter := f.queue("bob", f.client())

	require.NoError(t, classic.Revoke(t.Context(), f.client().Client, r.Path()))

	require.NoError(t, harness.Receive(t, released, "the release from the callback"))
	waiter.Granted()
}

// Curator X2
func TestHolderThatIsAskedToReleaseIsNotifiedOnceAndTheNextIsGranted(t *testing.T) {
	t.Parallel()
	f := share(t)
	notices := f.listen("ann")
	m, rw := f.mutex(f.client(), telling(notices)), f.rwmutex(f.client(), telling(notices))
	asking := f.client()

	// one mutex, again and again: Curator's is revocable only until its first release
	for turn, acquire := range []acquirer{m.Acquire, m.Acquire, rw.AcquireRead, rw.AcquireWrite} {
		holder := f.hold("ann", acquire)
		waiter := f.queue("bob", asking)

		// when the holder is asked to release, twice
		require.NoError(t, classic.Revoke(t.Context(), asking.Client, holder.Path()))
		harness.Await[lock.PreemptRequested](t, notices)
		require.NoError(t, classic.Revoke(t.Context(), asking.Client, holder.Path()))

		// then it is notified once, and holds until it releases
		require.NoError(t, holder.Granted().Check())
		waiter.IsPending()
		data, _ := f.Get(holder.Path())
		require.Equal(t, "__REVOKE__", string(data))
		holder.Release()
		waiter.Granted()
		require.Len(t, harness.All[lock.PreemptRequested](notices), turn+1)
		waiter.Release()
	}
}

// Curator forgets a request that comes between the creation of the node and the watch on it.
func TestWaiterThatIsAskedToReleaseIsNotifiedOnceItHoldsAndOfEachWithdrawal(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	holder := f.hold("ann", f.mutex(c).Acquire)
	notices := f.listen("bob")
	waiter := f.ask("bob", f.mutex(f.client(), telling(notices)).Acquire)
	harness.Await[lock.Queued](t, notices)
	node := users + "/" + f.Filled(users, 2)[1]

	require.NoError(t, classic.Revoke(t.Context(), c.Client, node))
	require.Empty(t, harness.All[lock.PreemptRequested](notices))
	holder.Release()
	waiter.Granted()
	harness.Await[lock.PreemptRequested](t, notices)

	f.Set(node, "never mind")
	harness.Await[lock.PreemptionWithdrawn](t, notices)
	require.NoError(t, classic.Revoke(t.Context(), c.Client, node))
	harness.Await[lock.PreemptRequested](t, notices)
}

func TestRevokeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	r := f.hold("ann", f.mutex(c).Acquire)
	r.Release()
	var gone *classic.GoneError
	require.ErrorAs(t, classic.Revoke(t.Context(), c.Client, r.Path()), &gone)
	require.Equal(t, r.Path(), gone.Path)
	require.ErrorContains(t, gone, "is not there any more")
	require.ErrorAs(t, classic.Revoke(t.Context(), c.Client, users), new(*lock.RequestError))
	require.ErrorAs(t, classic.Revoke(t.Context(), c.Client, "nowhere"), new(*lock.RequestError))
}

// withUndo returns a client that has a request to undo while ZooKeeper is silent.
func (f *fixture) withUndo(session time.Duration) (*lock.Client, *zktest.Proxy) {
	f.Helper()
	proxy := zktest.RunProxyT(f, f.Server.Addr())
	c, err := lock.NewClient(lock.Config{Servers: []string{proxy.Addr()}, Chroot: f.Root, SessionTimeout: session})
	require.NoError(f, err)
	f.Create(users, nil, 0)
	require.NoError(f, c.Ready(f.Context()))
	created := proxy.On(f.on(zktest.Create, users+"/*").Nth(1)).HoldReply()
	r := f.ask("ann", f.mutex(c).Acquire)
	reached(f, created)
	proxy.Partition()
	r.Cancel()
	require.ErrorIs(f, r.Refused(), context.Canceled)
	return c, proxy
}

func TestClosingClientConnectsAgainForWhatIsToBeUndone(t *testing.T) {
	t.Parallel()
	f := share(t)

	// given a client that closes while a request is being undone
	c, proxy := f.withUndo(time.Minute)
	before, _ := c.Session()
	closing := f.run(c.Close)
	harness.Eventually(t, func() bool { return c.Ready(t.Context()) != nil }, "the client does not close")
	closing.IsPending()

	// when its connection breaks
	require.True(t, proxy.Disconnect(before))
	proxy.Heal()

	// then it is done in the same session, long before that would end
	closing.Granted()
	after, _ := c.Session()
	require.Equal(t, before, after)
	require.Empty(t, f.Ephemerals())
}

func TestCloseReturnsThoughZooKeeperStaysSilent(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, _ := f.withUndo(2 * time.Second)

	// when it is closed by somebody who is in no hurry: it waits for the length of a session
	f.run(func(context.Context) error { return c.Close(context.Background()) }).Granted()

	// then what is left ends with that
	f.NoEphemerals()
}
