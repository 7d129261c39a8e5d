package locks

import (
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The tests of this file look at the nodes that a lock consists of, and at who
// may touch them.

// Curator M4: there the lock's node goes when all are done. Here it stays, since
// it counts grants: it is removed by garbage collection alone.
func TestWorkersThatAreDoneLeaveNothingButTheirCount(t *testing.T) {
	t.Parallel()
	const workers = 10
	h := shareHouse(t)
	shell := h.shell()

	// given the node of a lock
	first := h.hold(h.lock(h.client()), "first")
	node := h.lockNode(first.grant.ID())
	first.release()
	_, before, err := shell.Get(node)
	require.NoError(t, err)

	// when ten workers have locked and unlocked once
	var crowd sync.WaitGroup
	var inside room
	for range workers {
		l := h.lock(h.client())
		crowd.Go(func() {
			if err := visit(t.Context(), l, recipes.Request{Owner: "worker"}, &inside); err != nil {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	inside.wasOrderly(t, workers)

	// then it is empty, belongs to no session, and has counted them
	h.nobodyThere()
	names, after, err := shell.Children(node)
	require.NoError(t, err)
	require.Empty(t, names)
	require.Zero(t, after.EphemeralOwner)
	require.GreaterOrEqual(t, after.Version, before.Version+workers)
}

// Curator M5
func TestChrootHoldsEverything(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	tenant := func(name string) *recipes.Client {
		return h.client(func(cfg *recipes.Config) { cfg.Chroot, cfg.Root = h.root+"/tenants/"+name, "/locks of it" })
	}

	// given two chroots with the same root in them
	ann, bob := tenant("ann"), tenant("bob")

	// when the same lock is taken in both
	anns := h.hold(h.lock(ann), "ann")
	bobs := h.hold(h.lock(bob), "bob", try)

	// then both hold, and each sees its own alone
	require.Equal(t, []string{"ann"}, owners(h.state(ann).Holders))
	require.Equal(t, []string{"bob"}, owners(h.state(bob).Holders))
	require.True(t, strings.HasPrefix(h.node(anns.grant.ID()), h.root+"/tenants/ann/locks of it/locks/"))
	require.True(t, strings.HasPrefix(h.node(bobs.grant.ID()), h.root+"/tenants/bob/locks of it/locks/"))

	// and nothing is outside of them
	names, _, err := h.shell().Children(h.root)
	require.NoError(t, err)
	require.Equal(t, []string{"tenants"}, names)
	anns.release()
	bobs.release()
}

// go-zookeeper Z2
func TestPartOfThePathMayExist(t *testing.T) {
	t.Parallel()

	for _, parts := range []string{"", "/locks", "/locks/{bucket}", "/locks/{bucket}/users"} {
		t.Run("up to the root"+parts, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)
			shell := h.shell()

			// given some nodes of the path
			parts := strings.ReplaceAll(parts, "{bucket}", h.bucket())
			made := ""
			for part := range strings.SplitSeq((h.root + parts)[1:], "/") {
				made += "/" + part
				_, err := shell.Create(made, nil, 0, worldACL)
				require.NoError(t, err)
			}

			// when somebody acquires, then it holds
			first := h.hold(h.lock(h.client()), "first")
			require.True(t, strings.HasPrefix(h.node(first.grant.ID()), made))
			first.release()
		})
	}
}

// bucket returns the name of the node that the lock node of the scope "users"
// is under, in any root.
func (h *house) bucket() string {
	h.t.Helper()
	elsewhere := *h
	elsewhere.root = testbed.Root(h.t)
	u := elsewhere.hold(elsewhere.lock(elsewhere.client()), "surveyor")
	defer u.release()
	return path.Base(path.Dir(elsewhere.lockNode(u.grant.ID())))
}

const readOnly = zk.PermRead

// lockUp makes every node from the root to the parent of the lock node read
// only, for everybody.
func (h *house) lockUp(shell *zk.Conn, lockNode string) {
	h.t.Helper()
	for node := path.Dir(lockNode); node != "/"; node = path.Dir(node) {
		_, err := shell.SetACL(node, zk.WorldACL(readOnly|zk.PermAdmin), -1)
		require.NoError(h.t, err)
	}
}

// Curator X1
func TestLockNeedsItsOwnNodeAlone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a lock that exists, in a root that nobody may write to elsewhere
	first := h.hold(h.lock(h.client()), "first")
	node := h.lockNode(first.grant.ID())
	first.release()
	h.lockUp(shell, node)
	_, err := shell.Create(path.Dir(node)+"/other", nil, 0, worldACL)
	require.ErrorIs(t, err, zk.ErrNoAuth)

	// when it is taken, extended, handed over, preempted, taken by force, left and given back
	holder := h.hold(h.lock(h.client()), "holder", cleanup(time.Hour))
	require.NoError(t, holder.grant.Extend(t.Context(), time.Hour))
	waiter := h.ask(h.lock(h.client()), "waiter")
	waiter.queued()
	leaver := h.ask(h.lock(h.client()), "leaver", within(50*time.Millisecond))
	require.True(t, recipes.IsNotAcquired(leaver.refused()))
	boss := h.ask(h.lock(h.client()), "boss", at(1))
	await[recipes.PreemptAsked](t, holder.told)
	holder.release()
	boss.granted()
	boss.release()
	waiter.granted()
	thief := h.ask(h.lock(h.client()), "thief", at(1), forceful)
	thief.granted()
	require.Equal(t, recipes.LossTaken, await[recipes.Lost](t, waiter.told).Err.Reason)
	require.Equal(t, []string{"thief"}, owners(h.state(h.client()).Holders))
	thief.release()

	// then nothing of it was refused
	h.nobodyThere()
}

// as makes a client one of a digest user.
func as(user, password string) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Auth = &recipes.Digest{User: user, Password: password} }
}

// Curator A1
func TestLockBelongsToTheUserWhoMadeIt(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))

	// given a client with credentials, when it takes the first lock ever
	holder := h.hold(h.lock(h.client(as("ann", "secret"))), "ann")

	// then every node from the root to the request belongs to its user alone
	for node := h.node(holder.grant.ID()); node != "/"; node = path.Dir(node) {
		acl, _, err := shell.GetACL(node)
		require.NoError(t, err)
		require.Equal(t, zk.DigestACL(zk.PermAll, "ann", "secret"), acl, node)
	}

	// and others are told that it is not theirs
	for _, stranger := range []*recipes.Client{h.client(), h.client(as("bob", "secret"))} {
		_, err := h.lock(stranger).Acquire(t.Context(), recipes.Request{Owner: "stranger"})
		var access *recipes.AccessError
		require.ErrorAs(t, err, &access)
		_, err = stranger.Lock(t.Context(), "users")
		require.ErrorAs(t, err, &access)
	}

	// and a client of the same user is not refused
	waiter := h.ask(h.lock(h.client(as("ann", "secret"))), "ann again")
	waiter.queued()
	holder.release()
	waiter.granted()
}

// The level that refuses is named, although it is the one below that is missing.
func TestParentThatBelongsToSomebodyElseIsNamed(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))

	// given that the node below the root is of somebody else, and has no children
	locks := h.root + "/locks"
	_, err := shell.Create(h.root, nil, 0, worldACL)
	require.NoError(t, err)
	_, err = shell.Create(locks, nil, 0, zk.DigestACL(zk.PermAll, "ann", "secret"))
	require.NoError(t, err)

	// when a stranger asks for a lock
	_, err = h.lock(h.client()).Acquire(t.Context(), recipes.Request{Owner: "stranger"})

	// then it is told who refuses
	var access *recipes.AccessError
	require.ErrorAs(t, err, &access)
	require.Equal(t, locks, access.Node)
}

// Curator A2: each level that an administrator made keeps its own access
// control list; what is made below gets the user's.
func TestLevelsThatExistKeepTheirAccessControlLists(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))

	// given a root and a node below it, of different access control lists
	levels := map[string][]zk.ACL{
		h.root:            zk.WorldACL(readOnly | zk.PermAdmin),
		h.root + "/locks": zk.WorldACL(readOnly | zk.PermCreate | zk.PermAdmin),
	}
	for _, node := range []string{h.root, h.root + "/locks"} {
		_, err := shell.Create(node, nil, 0, worldACL)
		require.NoError(t, err)
	}
	for node, acl := range levels {
		_, err := shell.SetACL(node, acl, -1)
		require.NoError(t, err)
	}

	// when a client with credentials takes a lock there
	holder := h.hold(h.lock(h.client(as("ann", "secret"))), "ann")

	// then those are what they were, and the levels below are the user's
	request := h.node(holder.grant.ID())
	lock := path.Dir(request)
	for _, node := range []string{path.Dir(lock), lock, request} {
		levels[node] = zk.DigestACL(zk.PermAll, "ann", "secret")
	}
	for node, want := range levels {
		acl, _, err := shell.GetACL(node)
		require.NoError(t, err)
		require.Equal(t, want, acl, node)
	}
	holder.release()
}
