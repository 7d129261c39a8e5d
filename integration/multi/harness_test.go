package multi

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take on a busy machine.
const soon = 30 * time.Second

// A house is a server and a root of its own on it.
type house struct {
	t      testing.TB
	server testbed.Server
	root   string
}

func shareHouse(t testing.TB) *house { return &house{t, shared.Server(t), testbed.Root(t)} }

// ownHouse returns a house on a server that the test may stop.
func ownHouse(t testing.TB) *house {
	return &house{t, testbed.Start(t, testbed.Settings{}), testbed.Root(t)}
}

func (h *house) client(change ...func(*recipes.Config)) *recipes.Client {
	h.t.Helper()
	cfg := recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: 20 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := recipes.NewClient(cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !h.t.Failed() {
			require.NoError(h.t, err, "close the client")
		}
	})
	return c
}

// expire ends the session of a client at the server.
func (h *house) expire(c *recipes.Client) {
	h.t.Helper()
	id, password := c.Session()
	require.NotZero(h.t, id)
	require.NoError(h.t, h.server.Expire(h.t.Context(), id, password))
}

// contenders lists every request's node that the server has under the root.
func (h *house) contenders() []string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	paths, err := h.server.Ephemerals(ctx)
	require.NoError(h.t, err)
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, h.root+"/") })
}

// scopes are those at which the server has a request, once for each, in order.
func (h *house) scopes() []string {
	h.t.Helper()
	var scopes []string
	for _, node := range h.contenders() {
		scopes = append(scopes, path.Base(path.Dir(node)))
	}
	slices.Sort(scopes)
	return scopes
}

func (h *house) nobodyThere() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return len(h.contenders()) == 0 }, soon, 5*time.Millisecond, "requests are left at the server")
}

// lockNode returns the path of the node of a lock that somebody is at.
func (h *house) lockNode(scope string) string {
	h.t.Helper()
	for _, node := range h.contenders() {
		if path.Base(path.Dir(node)) == scope {
			return path.Dir(node)
		}
	}
	require.FailNow(h.t, "nobody is at the lock", scope)
	return ""
}

// watches counts what is watched at the server.
func (h *house) watches() int {
	h.t.Helper()
	paths, err := h.server.Watches(h.t.Context())
	require.NoError(h.t, err)
	return len(paths)
}

// departures returns the scopes of the lock nodes in the order in which their
// last child came or went: what ZooKeeper itself says.
func (h *house) departures(nodes map[string]string) []string {
	h.t.Helper()
	shell := testbed.Shell(h.t, h.server)
	last := map[string]int64{}
	var scopes []string
	for scope, node := range nodes {
		_, stat, err := shell.Get(node)
		require.NoError(h.t, err)
		last[scope] = stat.Pzxid
		scopes = append(scopes, scope)
	}
	slices.SortFunc(scopes, func(a, b string) int { return int(last[a] - last[b]) })
	return scopes
}

func (h *house) nodes(scopes ...string) map[string]string {
	h.t.Helper()
	nodes := map[string]string{}
	for _, scope := range scopes {
		nodes[scope] = h.lockNode(scope)
	}
	return nodes
}

// owners returns who holds a scope.
func (h *house) owners(c *recipes.Client, scope string) []string {
	h.t.Helper()
	state, err := c.Lock(h.t.Context(), scope)
	require.NoError(h.t, err)
	var owners []string
	for _, holder := range state.Holders {
		owners = append(owners, holder.Owner)
	}
	return owners
}

// queued waits until somebody waits for a scope.
func (h *house) queued(c *recipes.Client, scope string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		state, err := c.Lock(h.t.Context(), scope)
		return err == nil && len(state.Waiters) > 0
	}, soon, 5*time.Millisecond, "nobody waits for %s", scope)
}

// hold takes a single lock at once.
func (h *house) hold(c *recipes.Client, scope string, r recipes.Request) *recipes.Grant {
	h.t.Helper()
	lock, err := c.PriorityLock(scope)
	require.NoError(h.t, err)
	grant, err := lock.Acquire(h.t.Context(), r)
	require.NoError(h.t, err)
	return grant
}

func (h *house) multi(c *recipes.Client, parts ...recipes.Part) *recipes.Multi {
	h.t.Helper()
	m, err := c.Multi(parts...)
	require.NoError(h.t, err)
	return m
}

// parts are one request for several scopes.
func parts(r recipes.Request, scopes ...string) []recipes.Part {
	all := make([]recipes.Part, len(scopes))
	for i, scope := range scopes {
		all[i] = recipes.Part{Scope: scope, Request: r}
	}
	return all
}

func within(d time.Duration) recipes.Request { return recipes.Request{AcquireTimeout: &d} }

func at(level priority.Level, owner string) recipes.Request {
	return recipes.Request{Owner: owner, Priority: level}
}

// A pending is a Multi that is being acquired.
type pending struct {
	h      *house
	done   chan struct{}
	grant  *recipes.MultiGrant
	err    error
	cancel context.CancelFunc
}

func (h *house) ask(m *recipes.Multi) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{h: h, done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(p.done)
		p.grant, p.err = m.Acquire(ctx)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-p.done
		if p.grant != nil {
			_ = p.grant.Release(context.Background())
		}
	})
	return p
}

func (p *pending) granted() *recipes.MultiGrant {
	p.h.t.Helper()
	select {
	case <-p.done:
	case <-time.After(soon):
		require.FailNow(p.h.t, "not granted")
	}
	require.NoError(p.h.t, p.err)
	return p.grant
}

func (p *pending) waits() {
	p.h.t.Helper()
	select {
	case <-p.done:
		require.FailNow(p.h.t, "it does not wait any more", "error: %v", p.err)
	default:
	}
}

// told is what all parts of a Multi were told, in order.
type told struct {
	mu  sync.Mutex
	all []string
}

func (n *told) part(scope string, r recipes.Request) recipes.Part {
	r.Notify = func(notice recipes.Notice) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.all = append(n.all, scope+" "+strings.TrimPrefix(fmt.Sprintf("%T", notice), "recipes."))
	}
	return recipes.Part{Scope: scope, Request: r}
}

func (n *told) has(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.all, what)
}

func (n *told) eventually(t testing.TB, what string) {
	t.Helper()
	require.Eventually(t, func() bool { return n.has(what) }, soon, time.Millisecond, "%s was not told", what)
}

// A room is what a lock protects: it notices when two are inside.
type room struct {
	mu     sync.Mutex
	inside int
	crowd  bool
	last   recipes.Token
	disord bool
	visits int
}

func (r *room) enter(token recipes.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside++
	r.visits++
	r.crowd = r.crowd || r.inside > 1
	r.disord = r.disord || token <= r.last
	r.last = token
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside--
}

func (r *room) wasOrderly(t testing.TB, visits int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.False(t, r.crowd, "two were inside at once")
	require.False(t, r.disord, "a token was not greater than the one before")
	require.Zero(t, r.inside)
	require.Equal(t, visits, r.visits)
}

// A tripwire calls a function at the nth write or read of a connection, from 0.
type tripwire struct {
	mu    sync.Mutex
	reads bool
	left  int
	act   func()
}

func (w *tripwire) set(reads bool, n int, act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads, w.left, w.act = reads, n, act
}

// unset reports whether the wire was tripped.
func (w *tripwire) unset() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	tripped := w.act == nil
	w.act = nil
	return tripped
}

func (w *tripwire) pass(read bool) {
	w.mu.Lock()
	act := w.act
	if act == nil || w.reads != read {
		w.mu.Unlock()
		return
	}
	if w.left--; w.left >= 0 {
		w.mu.Unlock()
		return
	}
	w.act = nil
	w.mu.Unlock()
	act()
}

func (w *tripwire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wiredConn{Conn: conn, wire: w}, nil
}

type wiredConn struct {
	net.Conn
	wire *tripwire
}

func (c *wiredConn) Write(b []byte) (int, error) {
	c.wire.pass(false)
	return c.Conn.Write(b)
}

func (c *wiredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.wire.pass(true)
	}
	return n, err
}
