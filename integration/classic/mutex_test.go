package classic

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// where most tests have their lock.
const users = "/locks/users"

// mutex returns the mutex at users.
func (h *house) mutex(c *recipes.Client, change ...func(*recipes.MutexOptions)) *recipes.Mutex {
	h.t.Helper()
	var opts recipes.MutexOptions
	for _, f := range change {
		f(&opts)
	}
	m, err := c.Mutex(users, opts)
	require.NoError(h.t, err)
	return m
}

func named(data string) func(*recipes.MutexOptions) {
	return func(o *recipes.MutexOptions) { o.Data = []byte(data) }
}

func within(d time.Duration) func(*recipes.MutexOptions) {
	return func(o *recipes.MutexOptions) { o.AcquireTimeout = &d }
}

func telling(n *told) func(*recipes.MutexOptions) {
	return func(o *recipes.MutexOptions) { o.Notify = n.note }
}

func kazoo(o *recipes.MutexOptions)      { o.Naming = recipes.NamingKazoo }
func persistent(o *recipes.MutexOptions) { o.Persistent = true }

// queue asks, and waits until the request stands in line with its watch armed.
func (h *house) queue(name string, c *recipes.Client, change ...func(*recipes.MutexOptions)) *user {
	h.t.Helper()
	told := h.listen(name)
	u := h.ask(name, h.mutex(c, append(change, named(name), telling(told))...).Acquire)
	await[recipes.Queued](h.t, told)
	return u
}

// data lists what those in line have written, in order.
func data(t testing.TB, m interface {
	Participants(ctx context.Context) ([]recipes.Participant, error)
},
) []string {
	t.Helper()
	participants, err := m.Participants(t.Context())
	require.NoError(t, err)
	list := make([]string, 0, len(participants))
	for _, p := range participants {
		list = append(list, string(p.Data))
	}
	return list
}

// Curator M1, Kazoo K5, K11, go-zookeeper Z1
func TestMutexIsHeldUntilItsRelease(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	m, other := h.mutex(h.client()), h.mutex(h.client())

	for range 2 {
		// given a mutex at a path that need not exist
		g, err := m.Acquire(t.Context())
		require.NoError(t, err)

		// then it is held inside
		require.NoError(t, g.Check())
		_, err = other.TryAcquire(t.Context())
		require.ErrorAs(t, err, new(*recipes.NotAcquiredError))

		// and not after the release
		h.release(g)
		require.ErrorIs(t, g.Check(), recipes.ErrReleased)
		g, err = other.TryAcquire(t.Context())
		require.NoError(t, err)
		h.release(g)
	}
}

// Curator M9, Kazoo K2, go-zookeeper Z1
func TestMutexIsGrantedInTheOrderOfTheLine(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	clients := []*recipes.Client{h.client(), h.client(), h.client()}

	// given a holder and five in line
	line := []*user{h.hold("0", h.mutex(clients[0], named("0")).Acquire)}
	for i := 1; i < 6; i++ {
		line = append(line, h.queue(fmt.Sprint(i), clients[i%3]))
	}
	last := recipes.Token(0)
	for i, u := range line {
		// then each holds in its turn, the list is one shorter each time, and the tokens grow
		u.granted()
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5"}[i:], data(t, h.mutex(clients[0])))
		for _, later := range line[i+1:] {
			later.waits()
		}
		require.Greater(t, u.token(), last)
		last = u.token()

		// when it releases
		u.release()
	}
	require.Empty(t, data(t, h.mutex(clients[0])))
}

// Kazoo K1
func TestMutexListsTheDataOfItsParticipants(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	u := h.hold("ann", h.mutex(c, named("ann")).Acquire)
	participants, err := h.mutex(h.client()).Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, participants, 1)
	p := participants[0]
	id, _ := c.Session()
	require.Equal(t, "ann", string(p.Data))
	require.Equal(t, u.grant.Path(), p.Path)
	require.Equal(t, id, p.Session)
	require.Equal(t, u.token(), p.Token)
	require.False(t, p.Reader)
	require.WithinDuration(t, time.Now(), p.Joined, soon)
}

// Curator R7 for a mutex
func TestMutexWritesTheDataThatItWasGiven(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	given := []byte("ann")
	m := h.mutex(h.client(), func(o *recipes.MutexOptions) { o.Data = given })
	given[0] = 'X'
	h.hold("ann", m.Acquire)
	require.Equal(t, []string{"ann"}, data(t, m))
}

// Curator M6, Kazoo K10
func TestOneMutexObjectServesManyGoroutinesOneAtATime(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var inside room
	var crowd sync.WaitGroup
	m := h.mutex(h.client())
	for i := range 20 {
		crowd.Go(func() {
			if err := visit(t.Context(), m.Acquire, &inside, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	inside.wasOrderly(t, 20)
	h.nobodyThere()
}

// visit acquires, enters the room, leaves it and releases.
func visit(ctx context.Context, acquire acquirer, r *room, who string) error {
	g, err := acquire(ctx)
	if err != nil {
		return err
	}
	r.enter(who)
	r.leave(who)
	return g.Release(ctx)
}

// Kazoo K9, Helix H8
func TestOfManyTriesAtOnceExactlyOneSucceeds(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	m := h.mutex(h.client())
	tries := make([]*user, 20)
	for i := range tries {
		tries[i] = h.ask(fmt.Sprint(i), m.TryAcquire)
	}
	granted := 0
	for _, u := range tries {
		u.ended()
		if u.err == nil {
			granted++
		} else {
			require.ErrorAs(t, u.err, new(*recipes.NotAcquiredError))
		}
	}
	require.Equal(t, 1, granted)
	require.Len(t, h.ephemerals(), 1)
}

// Kazoo K4, K8, etcd T3
func TestTryOnAHeldMutexFailsAtOnceAndLeavesNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold("ann", h.mutex(h.client(), named("ann")).Acquire)

	_, err := h.mutex(h.client()).TryAcquire(t.Context())

	var busy *recipes.NotAcquiredError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, users, busy.Scope)
	require.Zero(t, busy.Waited)
	require.Len(t, busy.Holders, 1)
	require.Equal(t, "ann", busy.Holders[0].Owner)
	require.Equal(t, nodeName(holder.grant), busy.Holders[0].ID)
	require.Equal(t, []string{holder.grant.Path()}, h.ephemerals())
}

// Kazoo K13, K30, Curator M8
func TestAcquireTimeoutEndsNotEarlierThanItSaysAndLeavesTheHolderAlone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold("ann", h.mutex(h.client(), named("ann")).Acquire)
	const patience = 300 * time.Millisecond

	before := time.Now()
	_, err := h.mutex(h.client(), within(patience)).Acquire(t.Context())

	require.GreaterOrEqual(t, time.Since(before), patience)
	var late *recipes.NotAcquiredError
	require.ErrorAs(t, err, &late)
	require.GreaterOrEqual(t, late.Waited, patience)
	require.Equal(t, "ann", late.Holders[0].Owner)
	require.NoError(t, holder.grant.Check())
	require.Equal(t, []string{holder.grant.Path()}, h.ephemerals())
}

// Kazoo K7, etcd T5, Curator M8
func TestHolderWithoutItsContextIsAStrangerToItself(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	m := h.mutex(c)
	holder := h.hold("ann", m.Acquire)

	_, err := h.mutex(c, within(200*time.Millisecond)).Acquire(t.Context())

	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
	require.NoError(t, holder.grant.Check())
	holder.release()
	again, err := m.Acquire(t.Context())
	require.NoError(t, err)
	h.release(again)
}

// Curator M7
func TestMutexAcquiredAgainThroughItsContextIsFreeAfterTheLastRelease(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	m, other := h.mutex(h.client()), h.mutex(h.client())
	free := func() bool {
		g, err := other.TryAcquire(t.Context())
		if err != nil {
			require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
			return false
		}
		h.release(g)
		return true
	}

	// given a hold three levels deep, of one node
	one, err := m.Acquire(t.Context())
	require.NoError(t, err)
	ctx := one.Context(t.Context())
	two, err := m.Acquire(ctx)
	require.NoError(t, err)
	three, err := m.TryAcquire(two.Context(ctx))
	require.NoError(t, err)
	require.Equal(t, one.Path(), three.Path())
	require.Len(t, h.ephemerals(), 1)

	// then it is held until the last level is released
	h.release(three)
	require.False(t, free())
	require.ErrorIs(t, three.Release(t.Context()), recipes.ErrReleased)
	h.release(one)
	require.ErrorIs(t, context.Cause(ctx), recipes.ErrReleased)
	require.NoError(t, two.Check())
	require.False(t, free())
	h.release(two)
	require.True(t, free())
}

// The context of one lock says nothing about another, nor one that was released.
func TestContextOfAnotherOrAReleasedMutexDoesNotNest(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, stranger := h.client(), h.client()
	m := h.mutex(c)
	elsewhere, err := c.Mutex("/locks/others", recipes.MutexOptions{})
	require.NoError(t, err)
	g, err := m.Acquire(t.Context())
	require.NoError(t, err)
	ctx := g.Context(context.Background())

	other, err := elsewhere.TryAcquire(ctx)
	require.NoError(t, err)
	require.NotEqual(t, g.Path(), other.Path())
	_, err = h.mutex(stranger).TryAcquire(ctx) // the same path in another client's session
	require.ErrorAs(t, err, new(*recipes.NotAcquiredError))

	h.release(g)
	_, err = m.TryAcquire(ctx)
	require.ErrorIs(t, err, recipes.ErrReleased)
	again, err := m.TryAcquire(context.WithoutCancel(ctx))
	require.NoError(t, err)
	require.NotEqual(t, g.Path(), again.Path())
	h.release(again)
	h.release(other)
}

// etcd T2
func TestMutexIsReleasedOnce(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	g := h.hold("ann", h.mutex(h.client()).Acquire).grant
	require.NoError(t, g.Release(t.Context()))
	require.ErrorIs(t, g.Release(t.Context()), recipes.ErrReleased)
	require.ErrorIs(t, g.Check(), recipes.ErrReleased)
}

// Kazoo K6, Curator S12 for a mutex
func TestWaiterThatIsCancelledLeavesTheLine(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold("ann", h.mutex(h.client()).Acquire)
	waiter, next := h.queue("bob", h.client()), h.queue("eve", h.client())

	waiter.cancel()

	require.ErrorIs(t, waiter.refused(), context.Canceled)
	require.Len(t, h.ephemerals(), 2)
	require.NoError(t, holder.grant.Check())
	next.waits()
	holder.release()
	next.granted()
}

// Curator's own rule: a line costs one watch a waiter, and a release wakes one.
func TestEachWaiterWatchesTheOneInFrontOfItAlone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, shell := h.client(), h.shell()
	h.hold("0", h.mutex(c).Acquire)
	for i := 1; i < 5; i++ {
		h.queue(fmt.Sprint(i), h.client())
	}
	line := h.crowdOf(shell, users, 5)
	want := []string{users + "/" + line[0]} // the holder's own
	for _, name := range line[:4] {
		want = append(want, users+"/"+name)
	}
	slices.Sort(want)
	require.Eventually(t, func() bool { return slices.Equal(want, h.watched()) }, soon, 5*time.Millisecond, "watched: %q", h.watched())
}

// Kazoo K14, K15, go-zookeeper Z3
func TestForeignNodesAreIgnoredAndThoseOfOtherLibrariesCount(t *testing.T) {
	t.Parallel()
	for name, counts := range map[string]bool{
		"config": false, "noLockHere": false, "x-lease-": false,
		"_c_38553bd6d1d57f710ae70ddcc3d24715-lock-":     true, // go-zookeeper
		"_c_38553bd6-d1d5-4f71-8ae7-0ddcc3d24715-lock-": true, // Curator
		"da5719988c244fc793f49ec3aa29b566__lock__":      true, // Kazoo
	} {
		for _, naming := range []recipes.Naming{recipes.NamingCurator, recipes.NamingKazoo} {
			t.Run(fmt.Sprint(name, " naming ", naming), func(t *testing.T) {
				t.Parallel()
				h := shareHouse(t)
				shell := h.shell()
				m := h.mutex(h.client(), func(o *recipes.MutexOptions) { o.Naming = naming })
				node := h.make(shell, users+"/"+name, nil, zk.FlagEphemeral|zk.FlagSequence)
				g, err := m.TryAcquire(t.Context())
				if !counts {
					require.NoError(t, err)
					h.release(g)
					return
				}
				require.ErrorAs(t, err, new(*recipes.NotAcquiredError))
				waiter := h.ask("ann", m.Acquire)
				h.crowdOf(shell, users, 2)
				waiter.waits()
				require.NoError(t, shell.Delete(h.at(node), -1))
				waiter.granted()
			})
		}
	}
}

// A node's name has the form that its language looks for.
func TestNodesAreCalledAsTheOtherLanguageCallsThem(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	require.Regexp(t, `^/locks/users/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$`, h.hold("curator", h.mutex(c).TryAcquire).grant.Path())
	m, err := c.Mutex("/locks/kazoo", recipes.MutexOptions{Naming: recipes.NamingKazoo})
	require.NoError(t, err)
	require.Regexp(t, `^/locks/kazoo/[0-9a-f]{32}__lock__[0-9]{10}$`, h.hold("kazoo", m.TryAcquire).grant.Path())
}

// Curator M4
func TestDirectoryOfAMutexDisappearsWhenNobodyUsesIt(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	var inside room
	var crowd sync.WaitGroup
	for i := range 10 {
		m := h.mutex(h.client())
		crowd.Go(func() {
			if err := visit(t.Context(), m.Acquire, &inside, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	inside.wasOrderly(t, 10)
	h.gone(shell, users)
	h.gone(shell, "/locks")
}

// The other side of M4: Kazoo's locks need their directory to stay.
func TestDirectoryOfAMutexWithKazoosNamesStays(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	h.hold("ann", h.mutex(h.client(), kazoo).Acquire).release()
	h.hold("a container", mustMutex(t, h.client(), "/gone/mutex").Acquire).release()
	h.gone(shell, "/gone") // the server has swept since
	require.True(t, h.exists(shell, users))
}

func mustMutex(t testing.TB, c *recipes.Client, path string) *recipes.Mutex {
	t.Helper()
	m, err := c.Mutex(path, recipes.MutexOptions{})
	require.NoError(t, err)
	return m
}

// The server may remove the directory at any moment between two holds.
func TestMutexWhoseDirectoryIsRemovedAllTheTimeIsAcquiredAllTheSame(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &wire{}
	c, shell := h.client(through(wire)), h.shell()
	m := h.mutex(c)
	last := recipes.Token(0)
	for times := 1; times <= 5; times++ {
		// when the directory goes right before the node is created in it, again and again
		left := times
		var remove func()
		remove = func() {
			_ = shell.Delete(h.at(users), -1)
			_ = shell.Delete(h.at("/locks"), -1)
			if left--; left > 0 {
				wire.before(opCreate, 0, remove)
			}
		}
		wire.before(opCreate, 0, remove)
		u := h.hold("ann", m.Acquire)
		require.True(t, wire.unset())
		require.Zero(t, left)

		// then it is made again, and the tokens grow although the sequence begins anew
		require.Greater(t, u.token(), last)
		last = u.token()
		require.Contains(t, u.grant.Path(), "lock-0000000000")
		u.release()
	}
}

// Curator M5, X1, go-zookeeper Z2
func TestMutexTouchesNothingButItsOwnPath(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	h.make(shell, "/locks", nil, 0) // part of the path exists

	u := h.hold("ann", h.mutex(h.client()).Acquire)
	waiter := h.queue("bob", h.client())

	require.Equal(t, []string{"locks"}, h.children(shell, ""))
	require.Equal(t, []string{"users"}, h.children(shell, "/locks"))
	require.Len(t, h.children(shell, users), 2)
	require.Equal(t, users, u.grant.Path()[:len(users)])
	u.release()
	waiter.granted()
}

// Helix H9
func TestClientThatHoldsAMutexIsNotClosed(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, waiting := h.client(), h.client()
	u := h.hold("ann", h.mutex(c).Acquire)
	waiter := h.queue("bob", waiting)
	var busy *recipes.BusyError
	require.ErrorAs(t, c.Close(t.Context()), &busy)
	require.Equal(t, []string{users}, busy.Held)
	require.ErrorAs(t, waiting.Close(t.Context()), &busy)
	require.Equal(t, []string{users}, busy.Requested)
	u.release()
	waiter.release()
	require.NoError(t, c.Close(t.Context()))
	_, err := h.mutex(c).Acquire(t.Context())
	require.ErrorIs(t, err, recipes.ErrClosed)
}

func TestMutexRefusesWhatCanNeverWork(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client()
	negative := -time.Second
	for path, field := range map[string]string{
		"": "path", "locks": "path", "/": "path", "/locks/": "path", "/a//b": "path", "/zookeeper/x": "path", "/a/\x00": "path",
	} {
		_, err := c.Mutex(path, recipes.MutexOptions{AcquireTimeout: &negative, Naming: 7, Data: make([]byte, 1<<20)})
		require.ErrorContains(t, err, field)
		for _, other := range []string{"acquire_timeout", "naming", "data"} {
			require.ErrorContains(t, err, other, "all at once")
		}
		require.ErrorAs(t, err, new(*recipes.RequestError))
	}
	_, err := c.RWMutex("/a", recipes.MutexOptions{Persistent: true})
	require.ErrorContains(t, err, "persistent")
}
