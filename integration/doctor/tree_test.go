package doctor

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestWrongPassword(t *testing.T) {
	cfg := asAna(t)
	use(t, client(t, cfg), "cluster/orders")

	wrong := cfg
	wrong.Auth = &lock.Digest{User: "ana", Password: "sekret"}
	r := examine(t, doctor.Options{Client: wrong})
	f := finds(t, r, doctor.Problem, "access", cfg.Root, `cannot be read with the password of the digest user "ana" that was given`)
	require.Contains(t, f.Do, "--zk-digest-file")

	none := cfg
	none.Auth = nil
	finds(t, examine(t, doctor.Options{Client: none}), doctor.Problem, "access", cfg.Root, "cannot be read with no credentials")
}

func TestNodesThatAreOpenThoughCredentialsAreInUse(t *testing.T) {
	server := shared.Server(t)
	cfg := at(t, server.Addr())
	use(t, client(t, cfg), "cluster/orders") // without credentials
	conn := shell(t, server.Addr())
	create(t, conn, cfg.Root+"/audit")
	create(t, conn, cfg.Root+"/overrides")
	cfg.Auth = &lock.Digest{User: "ana", Password: "secret"}

	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.Warning, "access", cfg.Root, "every client that reaches ZooKeeper may change")
	finds(t, r, doctor.Problem, "access", cfg.Root+"/audit", "forge the audit trail")
	finds(t, r, doctor.Problem, "access", cfg.Root+"/overrides", "apply overrides")
}

func TestNodesOfSomebodyElse(t *testing.T) {
	server, cfg := shared.Server(t), asAna(t)
	use(t, client(t, cfg), "cluster/orders")
	conn := shell(t, server.Addr(), "ana")
	_, err := conn.Create(cfg.Root+"/requests", nil, 0, append(zk.DigestACL(zk.PermAll, "bob", "x"), zk.WorldACL(zk.PermRead)...))
	require.NoError(t, err)

	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.Problem, "access", cfg.Root+"/requests", "1 node may be changed by others alone")
}

func TestOperatorWhoCannotBreakLocks(t *testing.T) {
	cfg := asAna(t)
	use(t, client(t, cfg), "cluster/orders")
	cfg.Operators = []string{lock.DigestID("olga", "other")}

	r := examine(t, doctor.Options{Client: cfg})
	f := finds(t, r, doctor.Warning, "access", cfg.Root, "do not name the operator digest:olga")
	require.NotContains(t, f.Found, cfg.Operators[0], "the hash of the password stays secret")
}

func TestNodesThatDoNotBelong(t *testing.T) {
	server := shared.Server(t)
	cfg := at(t, server.Addr())
	use(t, client(t, cfg), "cluster/orders")
	conn := shell(t, server.Addr())
	locks, _, err := conn.Children(cfg.Root + "/locks")
	require.NoError(t, err)
	lock := cfg.Root + "/locks/" + locks[0] + "/cluster%2Forders"
	wrongBucket := "00"
	if locks[0] == wrongBucket {
		wrongBucket = "01"
	}
	scratch, err := cfg.Scratch()
	require.NoError(t, err)
	for _, path := range []string{
		cfg.Root + "/stranger", cfg.Root + "/locks/zz", lock + "/lock-0000000001",
		cfg.Root + "/locks/" + wrongBucket, cfg.Root + "/locks/" + wrongBucket + "/cluster%2Forders", scratch.Root,
	} {
		create(t, conn, path)
	}

	r := examine(t, doctor.Options{Client: cfg})
	finds(t, r, doctor.Warning, "nodes", cfg.Root+"/stranger", "nothing of this version's")
	finds(t, r, doctor.Warning, "nodes", cfg.Root+"/locks/zz", "not one of the 256 buckets")
	finds(t, r, doctor.Warning, "nodes", lock+"/lock-0000000001", "its name is no request's")
	finds(t, r, doctor.Warning, "nodes", wrongBucket+"/cluster%2Forders", "the lock of this scope is "+lock)
	finds(t, r, doctor.Warning, "nodes", scratch.Root, "left by a measurement")
}

func TestScratchIsDiscardedWholeAndNothingElseIs(t *testing.T) {
	server := shared.Server(t)
	cfg := at(t, server.Addr())
	use(t, client(t, cfg), "cluster/orders")
	scratch, err := cfg.Scratch()
	require.NoError(t, err)
	c := client(t, scratch)
	use(t, c, "a/b")
	use(t, c, "c/d")
	require.NoError(t, c.Discard(t.Context()))
	conn := shell(t, server.Addr())
	there, _, err := conn.Exists(scratch.Root)
	require.NoError(t, err)
	require.False(t, there)

	var refused *lock.RequestError
	require.ErrorAs(t, client(t, cfg).Discard(t.Context()), &refused)
	there, _, err = conn.Exists(cfg.Root + "/locks")
	require.NoError(t, err)
	require.True(t, there)
}
