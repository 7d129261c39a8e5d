package identity

import (
	"context"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// alone is the configuration of somebody who has credentials and nothing else.
func (h *fixture) alone(u user) lock.Config {
	cfg := h.namedConfig(u)
	cfg.Operators, cfg.Contenders, cfg.Readers = nil, nil, nil
	if u == anonymous {
		cfg.Auth = nil
	}
	return cfg
}

// asBefore leaves a named root as programs made it that left no lists there.
func (h *fixture) asBefore() {
	h.Helper()
	require.NoError(h, h.named(ana).MakeRoot(h.Context()))
	require.NoError(h, h.shell(ana).Delete(h.Root+"/identities", -1))
}

func TestClientWithItsOwnCredentialsAloneTakesTheListsFromZooKeeper(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	operator := h.named(ana)
	require.NoError(t, operator.MakeRoot(h.Context()))
	_, err := operator.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)

	c := h.connect(h.alone(worker))
	l, err := c.PriorityLock("cluster/orders")
	require.NoError(t, err)
	grant, err := l.Acquire(h.Context(), lock.Request{Identity: priority.Identity{Owner: "alone"}})
	require.NoError(t, err)

	nodes := h.tree(h.shell(ana), h.Root+"/locks") // by an operator, who may read all
	require.Len(t, nodes, 4)
	for node := range nodes {
		acl, _, err := h.shell(ana).GetACL(node)
		require.NoError(t, err)
		require.ElementsMatch(t, acls(h.namedConfig(worker).NodeACL(node)), acl, node)
	}
	h.watch(c).sees("INC-1")
	h.watch(h.connect(h.alone(rita))).sees("INC-1")
	require.NoError(t, c.CheckAccess(h.Context()))
	require.NoError(t, grant.Release(h.Context()))
	_, err = h.connect(h.alone(ana)).Overrides().Clear(h.Context(), "INC-1")
	require.NoError(t, err)
	var refused *lock.IdentityError
	_, err = c.Overrides().Apply(h.Context(), incident("INC-2", inAnHour()))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{"digest:ana"}, refused.Operators)
	there, err := c.Identities(h.Context())
	require.NoError(t, err)
	require.Equal(t, ids(ana), there.Operators)
	require.ElementsMatch(t, ids(keeper, worker), there.Contenders)
	require.Equal(t, ids(rita), there.Readers)
}

func acls(list []zkclient.ACL) (all []zk.ACL) {
	for _, e := range list {
		all = append(all, zk.ACL{Perms: int32(e.Permissions), Scheme: e.Scheme, ID: e.ID})
	}
	return all
}

// Everything that makes nodes is refused before the first one.
func TestClientThatKnowsTooLittleMakesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lock.Config){
		"no lists":       func(*lock.Config) {},
		"operators":      func(cfg *lock.Config) { cfg.Operators = ids(ana) },
		"no contenders":  func(cfg *lock.Config) { cfg.Operators, cfg.Readers = ids(ana), ids(worker) },
		"without reader": func(cfg *lock.Config) { cfg.Operators, cfg.Contenders = ids(ana), ids(keeper, worker) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.asBefore()
			cfg := h.alone(worker)
			change(&cfg)
			c := h.connect(cfg)
			before := h.tree(h.shell(ana), h.Root)
			require.NotEmpty(t, before)

			for what, do := range makers(h.Context(), c, path.Base(h.Root)) {
				var unknown *lock.ListsError
				require.ErrorAs(t, do(), &unknown, what)
				require.Equal(t, h.Root, unknown.Node)
				require.Contains(t, unknown.Why, "in no list that this client knows")
				require.Contains(t, unknown.Why, "lockkeeper init")
				require.NotContains(t, unknown.Why, "admin")
			}
			require.Len(t, h.tree(h.shell(ana), h.Root), len(before))
			_, _, err := c.Locks(h.Context())
			require.NoError(t, err, "looking makes nothing")
			r := h.watch(c)
			require.Error(t, r.next().err, "whether there is a freeze is not known")

			// an operator puts it right, while the client runs
			require.NoError(t, h.named(ana).MakeRoot(h.Context()))
			if name != "no contenders" && name != "without reader" { // their lists are wrong
				require.NoError(t, works(h.Context(), c))
				r.sees()
			}
		})
	}
}

// makers are the ways in which a client makes nodes.
func makers(ctx context.Context, c *lock.Client, unique string) map[string]func() error {
	return map[string]func() error{
		"acquire": func() error { return works(ctx, c) },
		"try": func() error {
			l, err := c.PriorityLock("cluster/orders")
			if err == nil {
				_, err = l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "try"}, Terms: priority.Terms{AcquireTimeout: new(time.Duration)}})
			}
			return err
		},
		"pause": func() error {
			_, err := c.TickLedger("").Pause(ctx, "nightly", ticks.Pause{By: "ana"})
			return err
		},
		"ask": func() error { _, err := c.Approvals().Open(ctx, question()); return err },
		"audit": func() error {
			trail, err := c.AuditLog(0)
			if err == nil {
				_, err = trail.Append(ctx, entry("batch"))
			}
			return err
		},
		"mutex": func() error {
			m, err := classic.NewMutex(c.Client, "/"+unique+"-mutex", classic.MutexOptions{})
			if err == nil {
				_, err = m.Acquire(ctx)
			}
			return err
		},
	}
}

// Programs from before the lists were in ZooKeeper have lists of their own, and so
// may others: they go on as they did.
func TestClientWithAllListsNeedsNoneInZooKeeper(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.asBefore()
	require.NoError(t, works(h.Context(), h.named(worker)))
	there, _, err := h.shell(ana).Exists(h.Root + "/identities")
	require.NoError(t, err)
	require.False(t, there)
}

func TestListsThatDisagreeWithThoseInZooKeeperAreRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	require.NoError(t, h.named(ana).MakeRoot(h.Context()))
	cfg := h.namedConfig(worker)
	cfg.Contenders = ids(worker)
	c := h.connect(cfg)
	var unknown *lock.ListsError
	require.ErrorAs(t, works(h.Context(), c), &unknown)
	require.Equal(t, lock.ListsError{Node: h.Root + "/identities", Why: "it has other contenders (digest:keeper, digest:worker) than this client was given (digest:worker); leave zookeeper.operators, zookeeper.contenders and zookeeper.readers out here, or write what is there, or let an operator run lockkeeper init with the new lists"}, *unknown)
	require.ErrorAs(t, h.watch(c).next().err, &unknown)

	// operators alone may be named, to be sure of them
	pinned := h.alone(worker)
	pinned.Operators = ids(ana)
	require.NoError(t, works(h.Context(), h.connect(pinned)))
	pinned.Operators = ids(eveAsAna)
	require.ErrorAs(t, works(h.Context(), h.connect(pinned)), &unknown)
	require.Contains(t, unknown.Why, "other operators (digest:ana, with other passwords) than this client was given (digest:ana)")

	// with the new lists
	operator := h.namedConfig(ana)
	operator.Contenders = cfg.Contenders
	all, err := h.connect(operator).Init(h.Context())
	require.NoError(t, err)
	states := map[string]zkclient.RootNode{}
	for _, n := range all {
		states[path.Base(n.Path)] = n
	}
	require.Equal(t, zkclient.RootNodeRenewed, states["identities"].State)
	require.Equal(t, zkclient.RootNodeThere, states["locks"].State)
	require.Equal(t, "digest:keeper:cdrw should not be there", states["locks"].Differs)
	require.NoError(t, works(h.Context(), c), "the same client, now that they agree")
	require.ErrorAs(t, works(h.Context(), h.connect(h.namedConfig(keeper))), &unknown)
}

// What a newer program says of who may do what stays as it is.
func TestInitLeavesListsOfANewerProgram(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	require.NoError(t, h.named(ana).MakeRoot(h.Context()))
	shell, node, newer := h.shell(ana), h.Root+"/identities", []byte(`{"format":9}`)
	_, err := shell.Set(node, newer, -1)
	require.NoError(t, err)
	_, err = h.named(ana).Init(h.Context())
	require.ErrorAs(t, err, new(*lock.ListsError))
	require.ErrorContains(t, err, "has format 9")
	data, _, err := shell.Get(node)
	require.NoError(t, err)
	require.Equal(t, newer, data)

	// what cannot be read by any user is written anew
	_, err = shell.Set(node, []byte("junk"), -1)
	require.NoError(t, err)
	require.NoError(t, h.named(ana).MakeRoot(h.Context()))
}

func TestClientThatIsInNoListIsRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	require.NoError(t, h.named(ana).MakeRoot(h.Context()))
	for _, u := range []user{anonymous, eve, eveAsAna} {
		var access *lock.AccessError
		require.ErrorAs(t, works(h.Context(), h.connect(h.alone(u))), &access)
		require.Equal(t, h.Root+"/identities", access.Node)
		_, err := h.connect(h.alone(u)).Init(h.Context())
		require.ErrorAs(t, err, &access)
	}
	_, err := h.connect(h.alone(worker)).Init(h.Context())
	require.ErrorAs(t, err, new(*lock.IdentityError))
}

// Lists that any client could have written are not taken.
func TestForgedIdentitiesAreNotTaken(t *testing.T) {
	t.Parallel()
	for name, root := range map[string][]zk.ACL{
		"in an open root":           {world(zk.PermAll)},
		"in the root of a stranger": {digest(eve), {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.squat(eve, h.Root, nil, root...)
			h.squat(eve, h.Root+"/identities", []byte(`{"format":1,"operators":["`+ana.id()+`"],"contenders":["`+worker.id()+`"]}`), world(zk.PermAll))
			var untrusted *lock.UntrustedError
			require.ErrorAs(t, works(h.Context(), h.connect(h.alone(worker))), &untrusted)
			var unknown *lock.ListsError
			require.ErrorAs(t, works(h.Context(), h.connect(h.alone(keeper))), &unknown)
			require.Contains(t, unknown.Why, "digest:keeper is in none of the lists")
		})
	}
}

// Users who share a root without lists share what they make, too. A user who was first,
// and knows no password, can make everyone a contender. A user with credentials is not
// among them, unless they know the operators.
func TestListsThatLetEverybodyContendAreNotForThoseWithCredentials(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	cfg := h.namedConfig(eve)
	cfg.Operators, cfg.Contenders, cfg.Readers = ids(eve), []string{"world:anyone"}, nil
	stranger := h.connect(cfg)
	require.NoError(t, stranger.MakeRoot(h.Context()))
	_, err := stranger.Overrides().Apply(h.Context(), incident("INC-1", inAnHour()))
	require.NoError(t, err)

	c := h.connect(h.alone(worker))
	var refused *lock.ListsError
	require.ErrorAs(t, works(h.Context(), c), &refused)
	require.Equal(t, h.Root+"/identities", refused.Node)
	require.ErrorAs(t, h.watch(c).next().err, &refused)

	// while those without credentials, and those who know the operators, are welcome
	require.NoError(t, works(h.Context(), h.connect(h.alone(anonymous))))
	knows := h.alone(worker)
	knows.Operators = ids(eve)
	require.NoError(t, works(h.Context(), h.connect(knows)))
	require.NoError(t, works(h.Context(), h.connect(h.alone(eve))))
}

func TestMembersOfARootWithoutListsMayReadWhatOthersMake(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.squat(anonymous, h.Root, nil, digest(keeper), digest(ana))
	require.NoError(t, works(h.Context(), h.client(keeper)))
	_, _, err := h.client(ana).Locks(h.Context())
	require.NoError(t, err)
	require.NoError(t, works(h.Context(), h.client(ana)))
}

func TestInitSaysWhatItHasDone(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	all, err := h.named(ana).Init(h.Context())
	require.NoError(t, err)
	require.Len(t, all, len(h.namedConfig(ana).Rooms()))
	for _, n := range all {
		require.Equal(t, zkclient.RootNodeMade, n.State, n.Path)
		require.Empty(t, n.Differs)
	}
	all, err = h.connect(h.alone(ana)).Init(h.Context())
	require.NoError(t, err)
	for _, n := range all {
		require.Equal(t, zkclient.RootNodeThere, n.State, n.Path)
		require.Empty(t, n.Differs)
	}

	open := newFixture(t)
	open.squat(anonymous, open.Root, nil, world(zk.PermAll))
	all, err = open.named(ana).Init(open.Context())
	require.NoError(t, err)
	require.Equal(t, zkclient.RootNode{
		Path: open.Root, State: zkclient.RootNodeThere,
		Differs: "world:anyone:cdrwa should not be there, digest:ana:cdrwa is missing, digest:keeper:r is missing, digest:worker:r is missing, digest:rita:r is missing",
	}, all[0])
	require.Equal(t, zkclient.RootNodeMade, all[1].State)

	secured := newFixture(t)
	all, err = secured.client(ana, ana, keeper).Init(secured.Context())
	require.NoError(t, err)
	require.Equal(t, []zkclient.RootNode{{Path: secured.Root, State: zkclient.RootNodeMade}, {Path: secured.Root + "/identities", State: zkclient.RootNodeMade}}, all)
	require.NoError(t, works(secured.Context(), secured.client(keeper)), "takes the operators from there")
	_, _, err = secured.client(ana).Locks(secured.Context())
	require.NoError(t, err)
}
