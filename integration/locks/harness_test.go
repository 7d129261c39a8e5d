package locks

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// soon is how long anything that must happen may take on a busy machine.
const soon = 30 * time.Second

// A house is a server, a root of its own on it, and the story of a test.
type house struct {
	t      testing.TB
	server testbed.Server
	root   string
	story  *story
}

// shareHouse returns a house on the shared server.
func shareHouse(t testing.TB) *house { return newHouse(t, shared.Server(t)) }

// ownHouse returns a house on a server that the test may stop.
func ownHouse(t testing.TB) *house { return newHouse(t, testbed.Start(t, testbed.Settings{})) }

func newHouse(t testing.TB, server testbed.Server) *house {
	return &house{t: t, server: server, root: testbed.Root(t), story: newStory(t)}
}

// client connects a client that is closed at the end. Its session lasts 10s
// unless change says otherwise.
func (h *house) client(change ...func(*recipes.Config)) *recipes.Client {
	h.t.Helper()
	cfg := recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: 10 * time.Second, LocalQueue: localQueue}
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

// localQueue is Config.LocalQueue of all clients, so that the suite can be run with
// one: LOCKKEEPER_TEST_LOCAL_QUEUE. Not numbers are none.
var localQueue, _ = strconv.Atoi(os.Getenv("LOCKKEEPER_TEST_LOCAL_QUEUE"))

// allSeen has every request stand in ZooKeeper, where a test looks at them.
func allSeen(cfg *recipes.Config) { cfg.LocalQueue = 0 }

func timeout(d time.Duration) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.SessionTimeout = d }
}

// lock returns the lock of the scope "users".
func (h *house) lock(c *recipes.Client) *recipes.PriorityLock { return h.scope(c, "users") }

func (h *house) scope(c *recipes.Client, scope string) *recipes.PriorityLock {
	h.t.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(h.t, err)
	return l
}

// hold acquires the lock for owner at once and gives it back at the end of the
// test, if the test has not.
func (h *house) hold(l *recipes.PriorityLock, owner string, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	u := h.ask(l, owner, change...)
	u.granted()
	return u
}

// A user is one request, and then its grant.
type user struct {
	h      *house
	owner  string
	told   *told
	done   chan struct{} // closed when Acquire has returned
	grant  *recipes.Grant
	err    error
	cancel context.CancelFunc
}

// ask requests the lock in the background.
func (h *house) ask(l *recipes.PriorityLock, owner string, change ...func(*recipes.Request)) *user {
	h.t.Helper()
	return h.start(owner, l.Acquire, change...)
}

// start makes a request in the background, by acquire.
func (h *house) start(owner string, acquire func(context.Context, recipes.Request) (*recipes.Grant, error), change ...func(*recipes.Request)) *user {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	u := &user{h: h, owner: owner, told: newTold(h.story, owner), done: make(chan struct{}), cancel: cancel}
	r := recipes.Request{Owner: owner, Notify: u.told.note}
	for _, f := range change {
		f(&r)
	}
	go func() {
		defer close(u.done)
		u.grant, u.err = acquire(ctx, r)
		h.story.tell(owner, "acquire: error %v", u.err)
	}()
	h.t.Cleanup(func() { // before the client is closed
		u.told.wasInOrder(h.t)
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

func at(level priority.Level) func(*recipes.Request) {
	return func(r *recipes.Request) { r.Priority = level }
}

func within(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.AcquireTimeout = &d }
}

// try asks for what needs nobody's consent.
var try = within(0)

func cleanup(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.CleanupTimeout = d }
}

func lease(d time.Duration) func(*recipes.Request) {
	return func(r *recipes.Request) { r.LeaseTimeout = d }
}

// forceful takes the lock at the end of the holder's grace.
func forceful(r *recipes.Request) { r.Forceful = true }

// ended waits until Acquire has returned.
func (u *user) ended() {
	u.h.t.Helper()
	select {
	case <-u.done:
	case <-time.After(soon):
		require.FailNow(u.h.t, u.owner+"'s request has not ended")
	}
}

// granted waits for the grant.
func (u *user) granted() *recipes.Grant {
	u.h.t.Helper()
	u.ended()
	require.NoError(u.h.t, u.err, "%s's request", u.owner)
	return u.grant
}

// refused waits for the error.
func (u *user) refused() error {
	u.h.t.Helper()
	u.ended()
	require.Error(u.h.t, u.err, "%s's request was granted", u.owner)
	require.Nil(u.h.t, u.grant)
	return u.err
}

// queued waits until the request stands in the queue with its watches armed.
func (u *user) queued() recipes.Queued {
	u.h.t.Helper()
	return await[recipes.Queued](u.h.t, u.told)
}

// waits fails the test unless the request still waits.
func (u *user) waits() {
	u.h.t.Helper()
	select {
	case <-u.done:
		require.FailNow(u.h.t, u.owner+"'s request does not wait any more", "error: %v", u.err)
	default:
	}
}

func (u *user) release() {
	u.h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(u.h.t, u.granted().Release(ctx), "%s's release", u.owner)
	u.h.story.tell(u.owner, "released")
}

func (u *user) token() recipes.Token {
	u.h.t.Helper()
	token, err := u.granted().Token(u.h.t.Context())
	require.NoError(u.h.t, err, "%s's token", u.owner)
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

// state reads the lock as an onlooker does.
func (h *house) state(c *recipes.Client) recipes.LockState {
	h.t.Helper()
	state, err := c.Lock(h.t.Context(), "users")
	require.NoError(h.t, err)
	return state
}

func owners(contenders []recipes.Contender) []string {
	names := make([]string, 0, len(contenders))
	for _, c := range contenders {
		names = append(names, c.Owner)
	}
	return names
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

// nobodyThere waits until no request is left at the server.
func (h *house) nobodyThere() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return len(h.contenders()) == 0 }, soon, 5*time.Millisecond,
		"requests are left at the server")
}

// watches lists what is watched at the server, by all tests.
func (h *house) watches() []string {
	h.t.Helper()
	paths, err := h.server.Watches(h.t.Context())
	require.NoError(h.t, err)
	return paths
}

// watchesFallTo waits until the server has no more watches than that.
func (h *house) watchesFallTo(n int) {
	h.t.Helper()
	for deadline := time.Now().Add(soon); len(h.watches()) > n; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(h.t, "watches are left at the server", "where there were %d: %q", n, h.watches())
		}
	}
}

// shell is an administrator's connection.
func (h *house) shell() *zk.Conn { return testbed.Shell(h.t, h.server) }

var worldACL = zk.WorldACL(zk.PermAll)

// node returns the path of a request's node.
func (h *house) node(id string) string {
	h.t.Helper()
	for _, path := range h.contenders() {
		if strings.Contains(path, id) {
			return path
		}
	}
	require.FailNow(h.t, "no node", "request %s", id)
	return ""
}

// lockNode returns the path of the node of the scope "users".
func (h *house) lockNode(id string) string {
	node := h.node(id)
	return node[:strings.LastIndexByte(node, '/')]
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

// told is what one request was told.
type told struct {
	who   string
	story *story

	mu      sync.Mutex
	notices []recipes.Notice
	at      []time.Time
	news    chan struct{} // closed by the next notice
	read    int           // notices that were awaited

	telling  atomic.Int32
	disorder string // what was against the rules
}

func newTold(s *story, who string) *told {
	return &told{who: who, story: s, news: make(chan struct{})}
}

func (n *told) note(x recipes.Notice) {
	alone := n.telling.Add(1) == 1
	defer n.telling.Add(-1)
	n.story.tell(n.who, "%T %+v", x, x)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !alone {
		n.disorder = fmt.Sprintf("%T while it was being told something else", x)
	}
	if i := len(n.notices) - 1; i >= 0 {
		if _, lost := n.notices[i].(recipes.Lost); lost {
			n.disorder = fmt.Sprintf("%T after its loss", x)
		}
	}
	n.notices = append(n.notices, x)
	n.at = append(n.at, time.Now())
	close(n.news)
	n.news = make(chan struct{})
}

// wasInOrder checks that it was told one thing at a time, and nothing after
// its loss.
func (n *told) wasInOrder(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Empty(t, n.disorder, "%s was told", n.who)
}

// await waits for the next notice of a kind, behind the one awaited last.
func await[N recipes.Notice](t testing.TB, n *told) N {
	t.Helper()
	x, _ := awaitAt[N](t, n)
	return x
}

// awaitAt also says when it came.
func awaitAt[N recipes.Notice](t testing.TB, n *told) (N, time.Time) {
	t.Helper()
	deadline := time.After(soon)
	for {
		n.mu.Lock()
		for n.read < len(n.notices) {
			i := n.read
			n.read++
			if x, ok := n.notices[i].(N); ok {
				at := n.at[i]
				n.mu.Unlock()
				return x, at
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
func count[N recipes.Notice](n *told) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := 0
	for _, x := range n.notices {
		if _, ok := x.(N); ok {
			c++
		}
	}
	return c
}

// A room is what a lock protects: it notices when two are inside.
type room struct {
	mu     sync.Mutex
	inside []string
	visits int
	worst  []string // the first crowd
	tokens []recipes.Token
}

func (r *room) enter(who string, token recipes.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = append(r.inside, who)
	r.visits++
	r.tokens = append(r.tokens, token)
	if len(r.inside) > 1 && r.worst == nil {
		r.worst = append(r.worst, r.inside...)
	}
}

func (r *room) leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.inside {
		if w == who {
			r.inside = append(r.inside[:i], r.inside[i+1:]...)
			return
		}
	}
}

// wasOrderly checks that there was never a crowd, and that each token was
// greater than the one before. Token 0 is one that was not asked for.
func (r *room) wasOrderly(t testing.TB, visits int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.worst, "two were inside at once")
	require.Empty(t, r.inside)
	require.Equal(t, visits, r.visits)
	last := recipes.Token(0)
	for i, token := range r.tokens {
		if token == 0 {
			continue
		}
		require.Greater(t, token, last, "token of visit %d", i)
		last = token
	}
}
