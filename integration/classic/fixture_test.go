package classic

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A fixture is the shared one, with paths as the clients of classic recipes name them: below a chroot.
type fixture struct{ *harness.Fixture }

func share(t testing.TB) *fixture { return &fixture{harness.New(t, shared.Server(t))} }

// alone returns a fixture on a server that the test may stop.
func alone(t testing.TB) *fixture {
	return &fixture{harness.NewAlone(t, testbed.Settings{Sweep: sweep})}
}

func (f *fixture) client(change ...func(*lock.Config)) *lock.Client {
	f.Helper()
	below := func(cfg *lock.Config) { cfg.Root, cfg.Chroot = "", f.Root }
	return f.Client(append([]func(*lock.Config){below}, change...)...)
}

func timeout(d time.Duration) func(*lock.Config) { return harness.SessionTimeout(d) }

// lenient ends what is held long before the session: a machine that stands still for seconds turns no order round.
func lenient(cfg *lock.Config) { cfg.SessionTimeout, cfg.Margin = 12*time.Second, 4*time.Second }

// proxied returns a connected client, and the proxy that its requests pass.
func (f *fixture) proxied(change ...func(*lock.Config)) (*lock.Client, *zktest.Proxy) {
	f.Helper()
	proxy := zktest.RunProxyT(f, f.Server.Addr())
	c := f.client(append(change, harness.Servers(proxy.Addr()))...)
	require.NoError(f, c.Ready(f.Context()))
	return c, proxy
}

// remote returns a client, and the network that it is behind.
func (f *fixture) remote(change ...func(*lock.Config)) (*lock.Client, *netfault.Proxy) {
	f.Helper()
	network := netfault.New(f, f.Server.Addr())
	return f.client(append(change, harness.Servers(network.Addr()))...), network
}

// on matches the requests of a kind about a path.
func (f *fixture) on(op zktest.OpType, p string) zktest.Match { return zktest.Op(op).Path(f.Root + p) }

func reached(t testing.TB, rule *zktest.Rule) {
	t.Helper()
	harness.Receive(t, rule.Reached(), "%s is not reached", rule)
}

func (f *fixture) Exists(p string) bool       { f.Helper(); return f.Fixture.Exists(f.Root + p) }
func (f *fixture) Gone(p string)              { f.Helper(); f.Fixture.Gone(f.Root + p) }
func (f *fixture) Children(p string) []string { f.Helper(); return f.Fixture.Children(f.Root + p) }

func (f *fixture) Filled(p string, n int) []string { f.Helper(); return f.Fixture.Filled(f.Root+p, n) }
func (f *fixture) Get(p string) ([]byte, *zk.Stat) { f.Helper(); return f.Fixture.Get(f.Root + p) }
func (f *fixture) Set(p, data string)              { f.Helper(); f.Fixture.Set(f.Root+p, []byte(data)) }
func (f *fixture) Delete(p string)                 { f.Helper(); f.Fixture.Delete(f.Root + p) }
func (f *fixture) Watched(p string, n int)         { f.Helper(); f.Fixture.Watched(f.Root+p, n) }
func (f *fixture) Ephemerals() []string            { f.Helper(); return f.within(f.Fixture.Ephemerals()) }

func (f *fixture) Watches() []string { f.Helper(); return f.within(f.Fixture.Watches()) }

func (f *fixture) within(paths []string) []string {
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], f.Root)
	}
	return paths
}

// Create creates a node, and those above it, as somebody else would.
func (f *fixture) Create(p string, data []byte, flags int32) string {
	f.Helper()
	return strings.TrimPrefix(f.Fixture.Create(f.Root+p, data, flags), f.Root)
}

// permit changes who may do what with a node.
func (f *fixture) permit(p string, rights int32) {
	f.Helper()
	_, err := f.Shell().SetACL(f.Root+p, zk.WorldACL(rights), -1)
	require.NoError(f, err)
}

// An acquirer is something that grants, such as the Acquire of a mutex.
type acquirer = func(context.Context) (*classic.Grant, error)

// A request is one request, and then its grant.
type request struct {
	*harness.Begun[*classic.Grant]
	f    *fixture
	name string
}

// ask requests in the background. What the test does not release is released at its end.
func (f *fixture) ask(name string, acquire acquirer) *request {
	f.Helper()
	r := &request{f: f, name: name}
	f.Cleanup(func() { // after the call has returned, and before the client is closed
		if g, _ := r.Wait(); g != nil {
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			_ = g.Release(ctx)
		}
	})
	r.Begun = harness.Begin(f, name+"'s request", func(ctx context.Context) (*classic.Grant, error) {
		g, err := acquire(ctx)
		f.History.Add(name, "acquire: error %v", err)
		return g, err
	})
	return r
}

// hold acquires what is free.
func (f *fixture) hold(name string, acquire acquirer) *request {
	f.Helper()
	r := f.ask(name, acquire)
	r.Granted()
	return r
}

func (r *request) Release() {
	r.f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	require.NoError(r.f, r.Granted().Release(ctx), "%s's release", r.name)
	r.f.History.Add(r.name, "released")
}

// Lost waits until the grant is, and returns why.
func (r *request) Lost() *lock.LostError {
	r.f.Helper()
	harness.Receive(r.f, r.Granted().Lost(), "%s has not lost", r.name)
	return lossOf(r.f, r.Granted().Check())
}

func (r *request) Token() lock.Token {
	r.f.Helper()
	token, err := r.Granted().Token(r.f.Context())
	require.NoError(r.f, err, "%s's token", r.name)
	return token
}

// Path returns that of the grant's node.
func (r *request) Path() string { r.f.Helper(); return r.Granted().Path() }

// node is the name of the grant's node.
func (r *request) node() string { r.f.Helper(); return path.Base(r.Path()) }

// run calls something in the background.
func (f *fixture) run(call func(context.Context) error) *harness.Running {
	f.Helper()
	return harness.Run(f, "the call", call)
}

// listen returns a collection of notices.
func (f *fixture) listen(who string) *harness.Notices[lock.Notice] {
	return harness.NewNotices[lock.Notice](f.History, who)
}

// visit acquires, enters, leaves and releases.
func visit(ctx context.Context, acquire acquirer, inside *harness.Occupancy, who string) error {
	g, err := acquire(ctx)
	if err != nil {
		return err
	}
	inside.Enter(who, 0)
	inside.Leave(who)
	return g.Release(ctx)
}

func lossOf(t testing.TB, err error) *lock.LostError {
	t.Helper()
	var loss *lock.LostError
	require.ErrorAs(t, err, &loss)
	return loss
}

// notAcquired checks that somebody else holds, and returns who.
func notAcquired(t testing.TB, err error) *lock.NotAcquiredError {
	t.Helper()
	var busy *lock.NotAcquiredError
	require.ErrorAs(t, err, &busy)
	return busy
}

// cancelled is a context that has ended.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
