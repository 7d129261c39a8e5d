package classic

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// where most tests have their lock.
const users = "/locks/users"

// mutex returns the mutex at users.
func (f *fixture) mutex(c *lock.Client, change ...func(*classic.MutexOptions)) *classic.Mutex {
	f.Helper()
	var opts classic.MutexOptions
	for _, apply := range change {
		apply(&opts)
	}
	m, err := classic.NewMutex(c.Client, users, opts)
	require.NoError(f, err)
	return m
}

func named(data string) func(*classic.MutexOptions) {
	return func(o *classic.MutexOptions) { o.Data = []byte(data) }
}

func telling(n *harness.Notices[lock.Notice]) func(*classic.MutexOptions) {
	return func(o *classic.MutexOptions) { o.Notify = n.Add }
}

func curator(*classic.MutexOptions)      {}
func kazoo(o *classic.MutexOptions)      { o.Naming = classic.NamingKazoo }
func persistent(o *classic.MutexOptions) { o.Persistent = true }

// queue asks, and waits until the request is in the queue with its watch armed.
func (f *fixture) queue(name string, c *lock.Client, change ...func(*classic.MutexOptions)) *request {
	f.Helper()
	notices := f.listen(name)
	r := f.ask(name, f.mutex(c, append(change, named(name), telling(notices))...).Acquire)
	harness.Await[lock.Queued](f, notices)
	return r
}

// Kazoo K1; Curator R7
func TestMutexListsTheDataOfItsParticipants(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	given := []byte("ann")
	m := f.mutex(c, func(o *classic.MutexOptions) { o.Data = given })
	given[0] = 'X'
	r := f.hold("ann", m.Acquire)

	participants, err := f.mutex(f.client()).Participants(t.Context())

	require.NoError(t, err)
	require.Len(t, participants, 1)
	id, _ := c.Session()
	_, stat := f.Get(r.Path())
	require.Equal(t, classic.Participant{
		Path: r.Path(), Data: []byte("ann"), Session: id, Token: r.Token(), Joined: time.UnixMilli(stat.Ctime),
	}, participants[0])
}

// Kazoo K7; etcd T5; Curator M7, M8
func TestMutexAcquiredAgainThroughItsContextIsFreeAfterTheLastRelease(t *testing.T) {
	t.Parallel()
	f := share(t)
	m, other := f.mutex(f.client()), f.mutex(f.client())
	free := func() bool {
		g, err := other.TryAcquire(t.Context())
		if err != nil {
			notAcquired(t, err)
			return false
		}
		require.NoError(t, g.Release(t.Context()))
		return true
	}

	// given a hold three levels deep, of one node
	one := f.hold("one", m.Acquire).Granted()
	ctx := one.Context(t.Context())
	two, err := m.Acquire(ctx)
	require.NoError(t, err)
	three, err := m.TryAcquire(two.Context(ctx))
	require.NoError(t, err)
	require.Equal(t, one.Path(), three.Path())
	require.Len(t, f.Ephemerals(), 1)
	_, err = m.TryAcquire(t.Context()) // without it the caller is a stranger to itself
	notAcquired(t, err)

	// then it is held until the last level is released
	require.NoError(t, three.Release(t.Context()))
	require.False(t, free())
	require.ErrorIs(t, three.Release(t.Context()), lock.ErrReleased)
	require.NoError(t, one.Release(t.Context()))
	require.ErrorIs(t, context.Cause(ctx), lock.ErrReleased)
	require.NoError(t, two.Check())
	require.False(t, free())
	require.NoError(t, two.Release(t.Context()))
	require.True(t, free())
}

// The context of one lock says nothing about another, nor one that was released.
func TestContextOfAnotherOrAReleasedMutexDoesNotNest(t *testing.T) {
	t.Parallel()
	f := share(t)
	c := f.client()
	m := f.mutex(c)
	elsewhere, err := classic.NewMutex(c.Client, "/locks/others", classic.MutexOptions{})
	require.NoError(t, err)
	g := f.hold("ann", m.Acquire)
	ctx := g.Granted().Context(context.Background())

	other, err := elsewhere.TryAcquire(ctx)
	require.NoError(t, err)
	require.NotEqual(t, g.Path(), other.Path())
	_, err = f.mutex(f.client()).TryAcquire(ctx) // the same path in another client's session
	notAcquired(t, err)

	g.Release()
	_, err = m.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrReleased)
	again, err := m.TryAcquire(context.WithoutCancel(ctx))
	require.NoError(t, err)
	require.NotEqual(t, g.Path(), again.Path())
	require.NoError(t, again.Release(t.Context()))
	require.NoError(t, other.Release(t.Context()))
}

// etcd T4, and Curator's own rule: a waiter costs one watch, and a release wakes one.
func TestEachWaiterWatchesTheOneInFrontOfItAlone(t *testing.T) {
	t.Parallel()
	f := share(t)
	holder := f.hold("0", f.mutex(f.client()).Acquire)
	dying, network := f.remote()
	waiters := []*request{f.queue("1", dying)}
	for i := 2; i < 5; i++ {
		waiters = append(waiters, f.queue(fmt.Sprint(i), f.client()))
	}
	watched := func(line []string) {
		t.Helper()
		want := []string{users + "/" + line[0]} // the holder's own
		for _, name := range line[:len(line)-1] {
			want = append(want, users+"/"+name)
		}
		slices.Sort(want)
		harness.Eventually(t, func() bool { return slices.Equal(want, f.Watches()) }, "%q is to be watched", want)
	}
	watched(f.Filled(users, 5))

	// when the one behind the holder dies, the next waits for the holder. The dead one does not ask again.
	require.NoError(t, network.Refuse())
	f.Expire(dying)
	watched(f.Filled(users, 4))
	waiters[1].IsPending()
	holder.Release()
	waiters[1].Granted()
}

// Kazoo K14, K15; go-zookeeper Z3
func TestForeignNodesAreIgnoredAndThoseOfOtherLibrariesCount(t *testing.T) {
	t.Parallel()
	for name, counts := range map[string]bool{
		"config": false, "noLockHere": false, "x-lease-": false,
		"_c_38553bd6d1d57f710ae70ddcc3d24715-lock-":     true, // go-zookeeper
		"_c_38553bd6-d1d5-4f71-8ae7-0ddcc3d24715-lock-": true, // Curator
		"da5719988c244fc793f49ec3aa29b566__lock__":      true, // Kazoo
	} {
		for _, naming := range []classic.Naming{classic.NamingCurator, classic.NamingKazoo} {
			t.Run(fmt.Sprint(name, " naming ", naming), func(t *testing.T) {
				t.Parallel()
				f := share(t)
				m := f.mutex(f.client(), func(o *classic.MutexOptions) { o.Naming = naming })
				node := f.Create(users+"/"+name, nil, zk.FlagEphemeral|zk.FlagSequence)
				g, err := m.TryAcquire(t.Context())
				if !counts {
					require.NoError(t, err)
					require.NoError(t, g.Release(t.Context()))
					return
				}
				notAcquired(t, err)
				waiter := f.ask("ann", m.Acquire)
				f.Filled(users, 2)
				waiter.IsPending()
				f.Delete(node)
				waiter.Granted()
			})
		}
	}
}

// Curator M5, X1; go-zookeeper Z2: a node's name has the form that its language looks for, and nothing else is touched.
func TestMutexTouchesNothingButItsOwnPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		naming func(*classic.MutexOptions)
		name   string
	}{
		{curator, `^/locks/users/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$`},
		{kazoo, `^/locks/users/[0-9a-f]{32}__lock__[0-9]{10}$`},
	} {
		f := share(t)
		f.Create("/locks", nil, 0) // part of the path exists
		r := f.hold("ann", f.mutex(f.client(), c.naming).Acquire)
		f.queue("bob", f.client())

		require.Regexp(t, c.name, r.Path())
		require.Equal(t, []string{"locks"}, f.Children(""))
		require.Equal(t, []string{"users"}, f.Children("/locks"))
		require.Len(t, f.Children(users), 2)
	}
}

// The server may remove the directory at any moment between two holds.
func TestMutexWhoseDirectoryIsRemovedAllTheTimeIsAcquiredAllTheSame(t *testing.T) {
	t.Parallel()
	f := share(t)
	c, proxy := f.proxied()
	creating := f.on(zktest.Create, users+"/*").Nth(1)
	last := lock.Token(0)
	for _, times := range []int{1, 5} { // after three a directory that stays is made
		// when the directory goes right before the node is created in it, again and again
		held := proxy.On(creating).Hold()
		r := f.ask("ann", f.mutex(c).Acquire)
		for left := times; left > 0; left-- {
			reached(t, held)
			for _, directory := range []string{users, "/locks"} {
				_ = f.Shell().Delete(f.Root+directory, -1)
			}
			before := held
			if left > 1 {
				held = proxy.On(creating).Hold()
			}
			before.Release()
		}

		// then it is made again, and the tokens grow although the sequence begins anew
		require.Greater(t, r.Token(), last)
		last = r.Token()
		require.Contains(t, r.Path(), "lock-0000000000")
		r.Release()
	}
}

// N10 for a mutex
func TestTokensGrowThroughSessionsAndRestarts(t *testing.T) {
	t.Parallel()
	f := alone(t)
	c := f.client()
	m := f.mutex(c)
	var tokens []lock.Token
	turn := func() {
		require.NoError(t, c.Ready(t.Context())) // a new request would not wait for long
		r := f.hold("ann", m.Acquire)
		tokens = append(tokens, r.Token())
		r.Release()
	}
	turn()
	f.Expire(c)
	turn()
	require.NoError(t, f.Server.Kill())
	require.NoError(t, f.Server.Restart(t.Context()))
	turn()
	f.Gone(users)
	turn()
	require.IsIncreasing(t, tokens)
}

func TestMutexRefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	c := share(t).client()
	negative := -time.Second
	for _, path := range []string{"", "locks", "/", "/locks/", "/a//b", "/zookeeper/x", "/a/\x00"} {
		_, err := classic.NewMutex(c.Client, path, classic.MutexOptions{AcquireTimeout: &negative, Naming: 7, Data: make([]byte, 1<<20)})
		for _, field := range []string{"path", "acquire_timeout", "naming", "data"} {
			require.ErrorContains(t, err, field, "all at once")
		}
		require.ErrorAs(t, err, new(*lock.RequestError))
	}
	_, err := classic.NewRWMutex(c.Client, "/a", classic.MutexOptions{Persistent: true})
	require.ErrorContains(t, err, "persistent")
}
