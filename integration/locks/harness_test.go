package locks

import (
	"cmp"
	"os"
	"path"
	"strconv"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// fixture is a harness.Fixture for tests of one lock, that of the scope "users".
type fixture struct{ *harness.Fixture }

// share returns a fixture on the shared server, for a test that runs beside others.
func share(t *testing.T) *fixture {
	t.Parallel()
	return &fixture{harness.New(t, shared.Server(t))}
}

// serial returns a fixture on the shared server, for a test that runs beside none.
func serial(t *testing.T) *fixture {
	t.Helper()
	return &fixture{harness.New(t, shared.Server(t))}
}

// alone returns a fixture on a server that the test may stop.
func alone(t *testing.T) *fixture {
	t.Parallel()
	return &fixture{harness.NewAlone(t)}
}

// localQueue is Config.LocalQueue of all clients, so that the suite can be run with one. It is read while tests run: a
// result is kept by the go command for the variables that are read then.
func localQueue(t testing.TB) int {
	t.Helper()
	text := cmp.Or(os.Getenv("LOCKKEEPER_TEST_LOCAL_QUEUE"), "0")
	turns, err := strconv.Atoi(text)
	require.NoError(t, err)
	return turns
}

// Client returns a client as harness.Fixture does, with the local queue that the suite runs with.
func (f *fixture) Client(change ...func(*lock.Config)) *lock.Client {
	f.Helper()
	return f.Fixture.Client(append([]func(*lock.Config){inLine(localQueue(f))}, change...)...)
}

// inLine has the requests of a client queue inside of it, behind one node.
func inLine(turns int) func(*lock.Config) {
	return func(cfg *lock.Config) { cfg.LocalQueue = turns }
}

// allSeen gives each request a node, where a test looks at them.
var allSeen = inLine(0)

// wired returns a client that has done everything once, so that what it does but once in its life is done, and the proxy
// between it and the server.
func (f *fixture) wired(change ...func(*lock.Config)) (*lock.Client, *zktest.Proxy) {
	f.Helper()
	wire := zktest.RunProxyT(f, f.Server.Addr())
	c := f.Client(append(change, harness.Servers(wire.Addr()))...)
	f.warm(c)
	return c, wire
}

// warm lets a client do everything once.
func (f *fixture) warm(c *lock.Client) {
	f.Helper()
	f.Hold(f.Lock(c, "warm"), "warm").Release()
	f.State(c, "warm")
}

// meanwhile does something while a request, or its answer, is held by a rule, and then lets it go.
func (f *fixture) meanwhile(rule *zktest.Rule, act func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-rule.Reached():
			act()
			rule.Release()
		case <-f.Context().Done():
		}
	}()
	f.Cleanup(func() { <-done })
}

// request is any request but a ping, whose time is not a step of anything.
func request() zktest.Match {
	return zktest.Any().Where(func(q zktest.Request) bool { return q.Op != zktest.Ping && q.Op != zktest.Connect })
}

// lock returns the lock of the scope "users".
func (f *fixture) lock(c *lock.Client) *lock.PriorityLock {
	f.Helper()
	return f.Lock(c, "users")
}

// hold acquires the lock by a client of its own, without a wait for others.
func (f *fixture) hold(owner string, options ...harness.Option) *harness.Request {
	f.Helper()
	return f.Hold(f.lock(f.Client()), owner, options...)
}

// acquire requests the lock in the background, by a client of its own.
func (f *fixture) acquire(owner string, options ...harness.Option) *harness.Request {
	f.Helper()
	return f.Acquire(f.lock(f.Client()), owner, options...)
}

// queued is acquire, and waits until the request is in the queue.
func (f *fixture) queued(owner string, options ...harness.Option) *harness.Request {
	f.Helper()
	r := f.acquire(owner, options...)
	r.Queued()
	return r
}

// state reads the lock.
func (f *fixture) state(c *lock.Client) lock.State {
	f.Helper()
	return f.State(c, "users")
}

// heldBy checks who holds the lock, in any order.
func (f *fixture) heldBy(c *lock.Client, owners ...string) {
	f.Helper()
	require.ElementsMatch(f, owners, harness.Owners(f.state(c).Holders), "holders")
}

// drain releases what is granted to each of these in turn, and waits until no request is left.
func (f *fixture) drain(requests ...*harness.Request) {
	f.Helper()
	for _, r := range requests {
		r.Release()
	}
	f.NoEphemerals()
}

// lockNode returns the node of the lock that a request holds, or queues for.
func lockNode(r *harness.Request) string { return path.Dir(r.Node()) }

// collect removes lock nodes as garbage collection does.
func (f *fixture) collect(nodes ...string) {
	f.Helper()
	_, root := f.Get(f.Root)
	ops := []any{&zk.SetDataRequest{Path: f.Root, Version: root.Version}}
	for _, node := range nodes {
		ops = append(ops, &zk.DeleteRequest{Path: node, Version: -1})
	}
	_, err := f.Shell().Multi(ops...)
	require.NoError(f, err)
}

// as makes a client one of a digest user.
func as(user string) func(*lock.Config) {
	return func(cfg *lock.Config) { cfg.Auth = &lock.Digest{User: user, Password: "secret"} }
}

// breakHold breaks the hold with a token, as an operator.
func (f *fixture) breakHold(token lock.Token) {
	f.Helper()
	_, err := f.Client(as("op")).Break(f.Context(), lock.BreakRequest{Scope: "users", Token: token, By: "op", Reason: "stuck"})
	require.NoError(f, err)
}
