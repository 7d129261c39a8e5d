package locks

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The tests of this file look at the nodes that a lock consists of, and at who
// may touch them.

// Curator M4: there the lock's node goes when all are done. Here it stays, since
// it counts grants: it is removed by garbage collection alone.
func TestWorkersThatAreDoneLeaveNothingButTheirCount(t *testing.T) {
	const workers = 10
	h := share(t)
	shell := h.Shell()

	// given the node of a lock
	first := h.hold("first")
	node := lockNode(first)
	first.Release()
	_, before, err := shell.Get(node)
	require.NoError(t, err)

	// when ten workers have locked and unlocked once
	var locks []*lock.PriorityLock
	for range workers {
		locks = append(locks, h.lock(h.Client()))
	}
	h.turns(locks, 1, 1)

	// then it is empty, belongs to no session, and has counted them
	h.NoEphemerals()
	names, after, err := shell.Children(node)
	require.NoError(t, err)
	require.Empty(t, names)
	require.Zero(t, after.EphemeralOwner)
	require.GreaterOrEqual(t, after.Version, before.Version+workers)
}

// Curator M5
func TestChrootHoldsEverything(t *testing.T) {
	h := share(t)
	tenant := func(name string) *lock.Client {
		return h.Client(func(cfg *lock.Config) { cfg.Chroot, cfg.Root = h.Root+"/tenants/"+name, "/locks of it" })
	}

	// given two chroots with the same root in them
	ann, bob := tenant("ann"), tenant("bob")

	// when the same lock is taken in both
	anns := h.Hold(h.lock(ann), "ann")
	bobs := h.Hold(h.lock(bob), "bob", harness.Try)

	// then both hold, and each sees its own alone
	h.heldBy(ann, "ann")
	h.heldBy(bob, "bob")
	require.True(t, strings.HasPrefix(anns.Node(), h.Root+"/tenants/ann/locks of it/locks/"))
	require.True(t, strings.HasPrefix(bobs.Node(), h.Root+"/tenants/bob/locks of it/locks/"))

	// and nothing is outside of them
	require.Equal(t, []string{"tenants"}, h.Children(h.Root))
	anns.Release()
	bobs.Release()
}

// Kazoo K5, go-zookeeper Z2
func TestPartOfThePathMayExist(t *testing.T) {
	t.Parallel()

	for what, parts := range map[string]string{
		"nothing": "", "up to the root": "{root}", "and what is below": "{root}/locks", "and the bucket": "{root}/locks/{bucket}",
		"all": "{root}/locks/{bucket}/users",
	} {
		t.Run(what, func(t *testing.T) {
			h := share(t)

			// given some nodes of the path
			made := strings.NewReplacer("{root}", h.Root, "{bucket}", h.bucket()).Replace(parts)
			if made != "" {
				h.Create(made, nil, 0)
			}

			// when somebody acquires, then it holds
			first := h.hold("first")
			require.True(t, strings.HasPrefix(first.Node(), made))
			first.Release()
		})
	}
}

// bucket returns the name of the node that the lock node of the scope "users"
// is under, in any root.
func (f *fixture) bucket() string {
	f.Helper()
	elsewhere := fixture{harness.New(f, f.Server)}
	r := elsewhere.hold("surveyor")
	defer r.Release()
	return path.Base(path.Dir(lockNode(r)))
}

const readOnly = zk.PermRead

// lockUp makes every node from the root to the parent of the lock node read
// only, for every client.
func (f *fixture) lockUp(shell *zk.Conn, lockNode string) {
	f.Helper()
	for node := path.Dir(lockNode); node != "/"; node = path.Dir(node) {
		_, err := shell.SetACL(node, zk.WorldACL(readOnly|zk.PermAdmin), -1)
		require.NoError(f, err)
	}
}

// Curator X1
func TestLockNeedsItsOwnNodeAlone(t *testing.T) {
	h := share(t)
	shell := h.Shell()

	// given a lock that exists, in a root that is read-only elsewhere
	first := h.hold("first")
	node := lockNode(first)
	first.Release()
	h.lockUp(shell, node)
	_, err := shell.Create(path.Dir(node)+"/other", nil, 0, harness.WorldACL)
	require.ErrorIs(t, err, zk.ErrNoAuth)

	// when it is taken, extended, handed over, preempted, taken by force, left and given back
	holder := h.hold("holder", harness.Cleanup(time.Hour))
	require.NoError(t, holder.Granted().Extend(t.Context(), time.Hour))
	waiter := h.queued("waiter")
	leaver := h.acquire("leaver", harness.Within(50*time.Millisecond))
	require.True(t, lock.IsNotAcquired(leaver.Refused()))
	boss := h.acquire("boss", harness.At(1))
	harness.Await[lock.PreemptRequested](h, holder.Notices)
	holder.Release()
	boss.Release()
	waiter.Granted()
	thief := h.acquire("thief", harness.At(1), harness.Forceful)
	thief.Granted()
	require.Equal(t, lock.LossTaken, waiter.Lost().Err.Reason)
	h.heldBy(h.Client(), "thief")
	thief.Release()

	// then nothing of it was refused
	h.NoEphemerals()
}

// Curator A1
func TestLockBelongsToTheUserWhoMadeIt(t *testing.T) {
	h := share(t)
	shell := h.Shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))

	// given a client with credentials, when it takes the first lock ever
	holder := h.Hold(h.lock(h.Client(as("ann"))), "ann")

	// then every node from the root to the request belongs to its user alone
	for node := holder.Node(); node != "/"; node = path.Dir(node) {
		acl, _, err := shell.GetACL(node)
		require.NoError(t, err)
		require.Equal(t, zk.DigestACL(zk.PermAll, "ann", "secret"), acl, node)
	}

	// and others learn that it is not theirs
	for _, stranger := range []*lock.Client{h.Client(), h.Client(as("bob"))} {
		_, err := h.lock(stranger).Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: "stranger"}})
		var access *lock.AccessError
		require.ErrorAs(t, err, &access)
		_, err = stranger.Lock(t.Context(), "users")
		require.ErrorAs(t, err, &access)
	}

	// and a client of the same user is not refused
	waiter := h.Acquire(h.lock(h.Client(as("ann"))), "ann again")
	waiter.Queued()
	holder.Release()
	waiter.Granted()
}

// The level that refuses is named, although it is the one below that is missing.
func TestParentThatBelongsToSomebodyElseIsNamed(t *testing.T) {
	h := share(t)
	shell := h.Shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))

	// given that the node below the root is of somebody else, and has no children
	locks := h.Root + "/locks"
	_, err := shell.Create(h.Root, nil, 0, harness.WorldACL)
	require.NoError(t, err)
	_, err = shell.Create(locks, nil, 0, zk.DigestACL(zk.PermAll, "ann", "secret"))
	require.NoError(t, err)

	// when a stranger asks for a lock
	_, err = h.lock(h.Client()).Acquire(t.Context(), lock.Request{Identity: priority.Identity{Owner: "stranger"}})

	// then it learns who refuses
	var access *lock.AccessError
	require.ErrorAs(t, err, &access)
	require.Equal(t, locks, access.Node)
}

// Curator A2: each level that an administrator made keeps its own access
// control list; what is made below gets the user's.
func TestLevelsThatExistKeepTheirAccessControlLists(t *testing.T) {
	h := share(t)
	shell := h.Shell()
	require.NoError(t, shell.AddAuth("digest", []byte("ann:secret")))

	// given a root and a node below it, of different access control lists
	levels := map[string][]zk.ACL{
		h.Root:            zk.WorldACL(readOnly | zk.PermAdmin),
		h.Root + "/locks": zk.WorldACL(readOnly | zk.PermCreate | zk.PermAdmin),
	}
	for _, node := range []string{h.Root, h.Root + "/locks"} {
		_, err := shell.Create(node, nil, 0, harness.WorldACL)
		require.NoError(t, err)
	}
	for node, acl := range levels {
		_, err := shell.SetACL(node, acl, -1)
		require.NoError(t, err)
	}

	// when a client with credentials takes a lock there
	holder := h.Hold(h.lock(h.Client(as("ann"))), "ann")

	// then those are what they were, and the levels below are the user's
	request := holder.Node()
	lock := path.Dir(request)
	for _, node := range []string{path.Dir(lock), lock, request} {
		levels[node] = zk.DigestACL(zk.PermAll, "ann", "secret")
	}
	for node, want := range levels {
		acl, _, err := shell.GetACL(node)
		require.NoError(t, err)
		require.Equal(t, want, acl, node)
	}
	holder.Release()
}
