package classic

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take on a busy machine.
const soon = 30 * time.Second

// A house is a server, a chroot of its own on it, and the story of a test.
type house struct {
	t      testing.TB
	server testbed.Server
	root   string
	story  *story
}

// shareHouse returns a house on the shared server.
func shareHouse(t testing.TB) *house { return newHouse(t, shared.Server(t)) }

// ownHouse returns a house on a server that the test may stop.
func ownHouse(t testing.TB) *house {
	return newHouse(t, testbed.Start(t, testbed.Settings{Sweep: sweep}))
}

func newHouse(t testing.TB, server testbed.Server) *house {
	return &house{t: t, server: server, root: testbed.Root(t), story: newStory(t)}
}

// client connects a client that is closed at the end. Its paths are below the
// house's root. Its session lasts 10s unless change says otherwise.
func (h *house) client(change ...func(*recipes.Config)) *recipes.Client {
	h.t.Helper()
	cfg := recipes.Config{Servers: []string{h.server.Addr()}, Chroot: h.root, SessionTimeout: 10 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := recipes.NewClient(cfg)
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Close(ctx); err != nil && !h.t.Failed() {
			require.ErrorIs(h.t, err, recipes.ErrClosed, "close the client")
		}
	})
	return c
}

func timeout(d time.Duration) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.SessionTimeout = d }
}

// An acquirer is something that grants, such as a mutex' Acquire.
type acquirer func(context.Context) (*recipes.ClassicGrant, error)

// A user is one request, and then its grant.
type user struct {
	h      *house
	name   string
	done   chan struct{} // closed when the request has ended
	grant  *recipes.ClassicGrant
	err    error
	cancel context.CancelFunc
}

// ask requests in the background. What the test does not give back is given
// back at its end.
func (h *house) ask(name string, acquire acquirer) *user {
	h.t.Helper()
	return h.askWith(context.Background(), name, acquire)
}

func (h *house) askWith(ctx context.Context, name string, acquire acquirer) *user {
	h.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	u := &user{h: h, name: name, done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(u.done)
		u.grant, u.err = acquire(ctx)
		h.story.tell(name, "asked, error %v", u.err)
	}()
	h.t.Cleanup(func() { // before the client is closed
		u.cancel()
		<-u.done
		if u.grant != nil {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			_ = u.grant.Release(ctx)
		}
	})
	return u
}

// hold requests and waits for the grant.
func (h *house) hold(name string, acquire acquirer) *user {
	h.t.Helper()
	u := h.ask(name, acquire)
	u.granted()
	return u
}

// ended waits until the request has.
func (u *user) ended() {
	u.h.t.Helper()
	select {
	case <-u.done:
	case <-time.After(soon):
		require.FailNow(u.h.t, u.name+"'s request has not ended")
	}
}

// granted waits for the grant.
func (u *user) granted() *recipes.ClassicGrant {
	u.h.t.Helper()
	u.ended()
	require.NoError(u.h.t, u.err, "%s's request", u.name)
	return u.grant
}

// refused waits for the error.
func (u *user) refused() error {
	u.h.t.Helper()
	u.ended()
	require.Error(u.h.t, u.err, "%s's request was granted", u.name)
	require.Nil(u.h.t, u.grant)
	return u.err
}

// waits fails the test unless the request has not ended.
func (u *user) waits() {
	u.h.t.Helper()
	select {
	case <-u.done:
		require.FailNow(u.h.t, u.name+"'s request does not wait any more", "error: %v", u.err)
	default:
	}
}

func (u *user) release() {
	u.h.t.Helper()
	u.h.release(u.granted())
	u.h.story.tell(u.name, "released")
}

func (h *house) release(g *recipes.ClassicGrant) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(h.t, g.Release(ctx))
}

// lost waits until the grant is, and returns why.
func (u *user) lost() *recipes.LostError {
	u.h.t.Helper()
	g := u.granted()
	select {
	case <-g.Lost():
	case <-time.After(soon):
		require.FailNow(u.h.t, u.name+" has not lost")
	}
	var loss *recipes.LostError
	require.ErrorAs(u.h.t, g.Check(), &loss)
	return loss
}

func (u *user) token() recipes.Token {
	u.h.t.Helper()
	token, err := u.granted().Token(u.h.t.Context())
	require.NoError(u.h.t, err, "%s's token", u.name)
	return token
}

// expire ends the session of a client at the server.
func (h *house) expire(c *recipes.Client) (id int64) {
	h.t.Helper()
	id, password := c.Session()
	require.NotZero(h.t, id)
	require.NoError(h.t, h.server.Expire(h.t.Context(), id, password))
	h.story.tell("server", "session 0x%x expired", uint64(id))
	return id
}

// shell is an administrator's connection.
func (h *house) shell() *zk.Conn { return testbed.Shell(h.t, h.server) }

var worldACL = zk.WorldACL(zk.PermAll)

// at returns the server's name of a path that a client of the house uses.
func (h *house) at(p string) string { return h.root + p }

// children lists a directory; nothing when it is not there.
func (h *house) children(conn *zk.Conn, dir string) []string {
	h.t.Helper()
	names, _, err := conn.Children(h.at(dir))
	if err != nil {
		require.ErrorIs(h.t, err, zk.ErrNoNode)
	}
	return names
}

// crowdOf waits until a directory has n children, and returns them in the
// order of their sequence numbers.
func (h *house) crowdOf(conn *zk.Conn, dir string, n int) []string {
	h.t.Helper()
	var names []string
	require.Eventually(h.t, func() bool {
		names = h.children(conn, dir)
		return len(names) == n
	}, soon, 2*time.Millisecond, "%s has not got %d children", dir, n)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	return names
}

// exists reports whether a node is there.
func (h *house) exists(conn *zk.Conn, p string) bool {
	h.t.Helper()
	there, _, err := conn.Exists(h.at(p))
	require.NoError(h.t, err)
	return there
}

// gone waits until a node is not there.
func (h *house) gone(conn *zk.Conn, p string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return !h.exists(conn, p) }, soon, 5*time.Millisecond, "%s is still there", p)
}

// make creates a node, and those above it, as somebody else would. An empty
// container may be cleaned up at any moment: then it begins anew.
func (h *house) make(conn *zk.Conn, p string, data []byte, flags int32) string {
	h.t.Helper()
	for deadline := time.Now().Add(soon); ; {
		created, err := makeAll(conn, h.at(p), data, flags)
		if errors.Is(err, zk.ErrNoNode) && time.Now().Before(deadline) {
			continue
		}
		require.NoError(h.t, err)
		return strings.TrimPrefix(created, h.root)
	}
}

func makeAll(conn *zk.Conn, p string, data []byte, flags int32) (created string, err error) {
	for i := 1; i < len(p); i++ {
		if p[i] != '/' {
			continue
		}
		if _, err := conn.Create(p[:i], nil, 0, worldACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return "", err
		}
	}
	return conn.Create(p, data, flags, worldACL)
}

// ephemerals lists every ephemeral node that the server has under the root.
func (h *house) ephemerals() []string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	paths, err := h.server.Ephemerals(ctx)
	require.NoError(h.t, err)
	paths = slices.DeleteFunc(paths, func(p string) bool { return !strings.HasPrefix(p, h.root+"/") })
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], h.root)
	}
	return paths
}

// nobodyThere waits until no participant's node is left at the server.
func (h *house) nobodyThere() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return len(h.ephemerals()) == 0 }, soon, 5*time.Millisecond, "nodes are left at the server")
}

// watched lists the nodes under the root that are watched: one that two
// sessions watch is there twice.
func (h *house) watched() []string {
	h.t.Helper()
	paths, err := h.server.Watches(h.t.Context())
	require.NoError(h.t, err)
	var mine []string
	for _, p := range paths {
		if strings.HasPrefix(p, h.root+"/") {
			mine = append(mine, strings.TrimPrefix(p, h.root))
		}
	}
	slices.Sort(mine)
	return mine
}

// A told collects what a request is told.
type told struct {
	who   string
	story *story

	mu      sync.Mutex
	notices []recipes.Notice
	news    chan struct{} // closed by the next notice
	read    int           // notices that were awaited
}

func (h *house) listen(who string) *told {
	return &told{who: who, story: h.story, news: make(chan struct{})}
}

func (n *told) note(x recipes.Notice) {
	n.story.tell(n.who, "%T %+v", x, x)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notices = append(n.notices, x)
	close(n.news)
	n.news = make(chan struct{})
}

// await waits for the next notice of a kind, behind the one awaited last.
func await[N recipes.Notice](t testing.TB, n *told) N {
	t.Helper()
	deadline := time.After(soon)
	for {
		n.mu.Lock()
		for n.read < len(n.notices) {
			n.read++
			if x, ok := n.notices[n.read-1].(N); ok {
				n.mu.Unlock()
				return x
			}
		}
		news := n.news
		n.mu.Unlock()
		select {
		case <-news:
		case <-deadline:
			var none N
			require.FailNow(t, fmt.Sprintf("%s was not told %T", n.who, none))
		}
	}
}

// count returns how many notices of a kind have come.
func count[N recipes.Notice](n *told) (c int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.notices {
		if _, ok := x.(N); ok {
			c++
		}
	}
	return c
}

// A room is what a recipe protects: it notices when too many are inside.
type room struct {
	limit  int // 0 is 1
	mu     sync.Mutex
	inside []string
	most   int
	visits int
	worst  []string // the first crowd that was too large
}

func (r *room) enter(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = append(r.inside, who)
	r.visits++
	r.most = max(r.most, len(r.inside))
	if len(r.inside) > max(r.limit, 1) && r.worst == nil {
		r.worst = slices.Clone(r.inside)
	}
}

func (r *room) leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.inside, who); i >= 0 {
		r.inside = slices.Delete(r.inside, i, i+1)
	}
}

// wasOrderly checks that there was never a crowd.
func (r *room) wasOrderly(t testing.TB, visits int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.worst, "too many were inside at once")
	require.Empty(t, r.inside)
	require.Equal(t, visits, r.visits)
}

// A story is what happened in a test, printed when it fails.
type story struct {
	start time.Time
	mu    sync.Mutex
	lines []string
}

func newStory(t testing.TB) *story {
	s := &story{start: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("what happened:\n%s", strings.Join(s.lines[max(0, len(s.lines)-200):], "\n"))
		}
	})
	return s
}

func (s *story) tell(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%8.3fs %-12s %s", time.Since(s.start).Seconds(), who, fmt.Sprintf(format, args...)))
}

// nodeName is that of a grant's node.
func nodeName(g *recipes.ClassicGrant) string { return path.Base(g.Path()) }
