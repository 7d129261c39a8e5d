package harness

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// WorldACL lets every client do everything with a node.
var WorldACL = zk.WorldACL(zk.PermAll)

// Fixture is a server, a root of its own on it, and the history of a test.
type Fixture struct {
	testing.TB
	Server  testbed.Server
	Root    string // below "/", named after the test; not created
	History *History

	shell func() *zk.Conn
}

// New returns a fixture on a server that runs already.
func New(t testing.TB, server testbed.Server) *Fixture {
	f := &Fixture{TB: t, Server: server, Root: testbed.Root(t), History: NewHistory(t)}
	f.shell = sync.OnceValue(func() *zk.Conn { return testbed.Shell(t, server) })
	return f
}

// NewAlone returns a fixture on a server of its own, which the test may stop.
func NewAlone(t testing.TB, settings ...testbed.Settings) *Fixture {
	t.Helper()
	var s testbed.Settings
	if len(settings) > 0 {
		s = settings[0]
	}
	return New(t, testbed.Start(t, s))
}

// Client returns a NewClient of the fixture's root, changed by change.
func (f *Fixture) Client(change ...func(*lock.Config)) *lock.Client {
	f.Helper()
	cfg := lock.Config{Servers: []string{f.Server.Addr()}, Root: f.Root}
	for _, c := range change {
		c(&cfg)
	}
	return NewClient(f, cfg)
}

// NewClient returns a client that is closed at the end of the test. Unless cfg says otherwise, its session timeout is
// Session, and a request waits for ZooKeeper with Patience: that bounds a try, too, and a busy machine is slow.
func NewClient(t testing.TB, cfg lock.Config) *lock.Client {
	t.Helper()
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, Session)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, Patience)
	client, err := lock.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience(t))
		defer cancel()
		if err := client.Close(ctx); err != nil && !t.Failed() {
			require.ErrorIs(t, err, lock.ErrClosed, "close the client")
		}
	})
	return client
}

// SessionTimeout makes a client's session that long.
func SessionTimeout(d time.Duration) func(*lock.Config) {
	return func(cfg *lock.Config) { cfg.SessionTimeout = d }
}

// Servers makes a client connect to other addresses than the server's own.
func Servers(addresses ...string) func(*lock.Config) {
	return func(cfg *lock.Config) { cfg.Servers = addresses }
}

// Shell is an administrator's connection: the same one for the whole test.
func (f *Fixture) Shell() *zk.Conn { return f.shell() }

// Expire ends the session of a client at the server, and returns its id.
func (f *Fixture) Expire(c *lock.Client) int64 {
	f.Helper()
	var id int64
	var password []byte
	// One that has done nothing yet may have none.
	Eventually(f, func() bool { id, password = c.Session(); return id != 0 }, "a session")
	require.NoError(f, f.Server.Expire(f.Context(), id, password))
	f.History.Add("server", "session 0x%x expired", uint64(id))
	return id
}

// Ephemerals lists the ephemeral nodes below the root.
func (f *Fixture) Ephemerals() []string {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	paths, err := f.Server.Ephemerals(ctx)
	require.NoError(f, err)
	return f.below(paths)
}

// NodeOf returns the path of the node of the request with that id.
func (f *Fixture) NodeOf(id string) string {
	f.Helper()
	nodes := f.Ephemerals()
	i := slices.IndexFunc(nodes, func(node string) bool { return strings.Contains(node, id) })
	require.GreaterOrEqual(f, i, 0, "request %s has no node: %q", id, nodes)
	return nodes[i]
}

// NoEphemerals waits until no ephemeral node is left below the root.
func (f *Fixture) NoEphemerals() {
	f.Helper()
	Eventually(f, func() bool { return len(f.Ephemerals()) == 0 }, "ephemeral nodes are left at the server")
}

// Watches lists the nodes below the root that are watched, sorted: one that two sessions watch is there twice.
func (f *Fixture) Watches() []string {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	paths, err := f.Server.Watches(ctx)
	require.NoError(f, err)
	paths = f.below(paths)
	slices.Sort(paths)
	return paths
}

// AtMostWatches waits until no more watches than n are left below the root.
func (f *Fixture) AtMostWatches(n int) {
	f.Helper()
	Eventually(f, func() bool { return len(f.Watches()) <= n }, "more than %d watches are left", n)
}

// TakesLess checks that a call leaves fewer bytes than limit on the heap.
func TakesLess(t testing.TB, limit int64, call func()) {
	t.Helper()
	before := heap()
	call()
	grown := heap() - before
	t.Logf("the heap of %d KiB grew by %d bytes", before>>10, grown)
	require.Less(t, grown, limit)
}

// heap returns the bytes that live after a collection.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what is freed by a finalizer, or from a pool, goes later
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (f *Fixture) below(paths []string) []string {
	return slices.DeleteFunc(paths, func(p string) bool { return p != f.Root && !strings.HasPrefix(p, f.Root+"/") })
}

// Sent does something by the shell, again while that has no connection: a test may have restarted the server.
func (f *Fixture) Sent(do func() error) (err error) {
	f.Helper()
	Eventually(f, func() bool {
		err = do()
		return !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed)
	}, "the shell has no connection")
	return err
}

// Exists reports whether a node is there.
func (f *Fixture) Exists(path string) (there bool) {
	f.Helper()
	require.NoError(f, f.Sent(func() (err error) { there, _, err = f.Shell().Exists(path); return err }), path)
	return there
}

// Gone waits until a node is not there.
func (f *Fixture) Gone(path string) {
	f.Helper()
	Eventually(f, func() bool { return !f.Exists(path) }, "%s is still there", path)
}

// Children lists the children of a node, sorted; none when it is not there.
func (f *Fixture) Children(path string) (names []string) {
	f.Helper()
	if err := f.Sent(func() (err error) { names, _, err = f.Shell().Children(path); return err }); err != nil {
		require.ErrorIs(f, err, zk.ErrNoNode, path)
	}
	slices.Sort(names)
	return names
}

// Get reads a node.
func (f *Fixture) Get(path string) (data []byte, stat *zk.Stat) {
	f.Helper()
	require.NoError(f, f.Sent(func() (err error) { data, stat, err = f.Shell().Get(path); return err }), path)
	return data, stat
}

// Set writes a node, whatever its version.
func (f *Fixture) Set(path string, data []byte) {
	f.Helper()
	require.NoError(f, f.Sent(func() (err error) { _, err = f.Shell().Set(path, data, -1); return err }), path)
}

// Delete deletes a node, whatever its version.
func (f *Fixture) Delete(path string) {
	f.Helper()
	again := false // then it may be gone already
	require.NoError(f, f.Sent(func() error {
		err := f.Shell().Delete(path, -1)
		if again && errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		again = true
		return err
	}), path)
	f.History.Add("shell", "deleted %s", path)
}

// Create creates a node, and those above it that are missing, and returns its path. An empty container may be removed
// at any moment: then it begins anew.
func (f *Fixture) Create(path string, data []byte, flags int32, acl ...zk.ACL) (created string) {
	f.Helper()
	if len(acl) == 0 {
		acl = WorldACL
	}
	Eventually(f, func() bool {
		var err error
		created, err = createAll(f.Shell(), path, data, flags, acl)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoServer) { // which is not sent
			return false
		}
		require.NoError(f, err, path)
		return true
	}, "create %s", path)
	return created
}

func createAll(conn *zk.Conn, path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if _, err := conn.Create(path[:i], nil, 0, WorldACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", err
		}
	}
	return conn.Create(path, data, flags, acl)
}
