package groups

import (
	"context"
	"errors"
	"fmt"
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

const groupName = "lock-group"

// A house is a server, a root of its own on it, the locks' referee, and the
// story of a test.
type house struct {
	t       testing.TB
	server  testbed.Server
	root    string
	story   *story
	referee *referee
	watcher *recipes.Client // looks, and takes no part
}

func shareHouse(t testing.TB) *house { return newHouse(t, shared.Server(t)) }

// ownHouse returns a house on a server that the test may stop.
func ownHouse(t testing.TB) *house { return newHouse(t, testbed.Start(t, testbed.Settings{})) }

func newHouse(t testing.TB, server testbed.Server) *house {
	h := &house{t: t, server: server, root: testbed.Root(t), story: newStory(t)}
	h.referee = &referee{story: h.story, holders: 1, inside: map[string][]string{}, tokens: map[string]recipes.Token{}}
	h.watcher = h.client()
	t.Cleanup(func() { h.referee.wasFair(t) })
	return h
}

// client connects a client that is closed at the end. Its session lasts 10s
// unless change says otherwise.
func (h *house) client(change ...func(*recipes.Config)) *recipes.Client {
	h.t.Helper()
	cfg := recipes.Config{Servers: []string{h.server.Addr()}, Root: h.root, SessionTimeout: 10 * time.Second}
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

func at(addr string) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Servers = []string{addr} }
}

// spec declares n locks.
func spec(n int, change ...func(*recipes.GroupSpec)) recipes.GroupSpec {
	s := recipes.GroupSpec{Name: groupName, Locks: recipes.NumberedLocks(groupName, n)}
	for _, f := range change {
		f(&s)
	}
	return s
}

func debounce(d time.Duration) func(*recipes.GroupSpec) {
	return func(s *recipes.GroupSpec) { s.Debounce = d }
}

// A player is one participant under the eyes of the referee.
type player struct {
	h    *house
	name string
	c    *recipes.Client
	m    *recipes.Member
	told *told

	mu       sync.Mutex
	log      []string // callbacks
	released func(ctx context.Context, lock string)
	locked   func(ctx context.Context, grant recipes.LockGrant)
	gave     []string // locks that it was asked to release
	lost     map[string]time.Time
}

var _ recipes.GroupHandler = (*player)(nil)

// join makes a participant with a client of its own join, and leave at the end.
func (h *house) join(s recipes.GroupSpec, name string, change ...func(*recipes.Config)) *player {
	h.t.Helper()
	p := h.player(name, h.client(change...))
	p.join(s)
	return p
}

func (h *house) player(name string, c *recipes.Client) *player {
	p := &player{h: h, name: name, c: c, told: newTold(h.story, name), lost: map[string]time.Time{}}
	h.t.Cleanup(func() { // before the client is closed
		if p.m == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := p.m.Leave(ctx); err != nil && !errors.Is(err, recipes.ErrClosed) {
			h.t.Errorf("%s has not left: %v", name, err)
		}
	})
	return p
}

func (p *player) group(s recipes.GroupSpec, options ...recipes.GroupOptions) *recipes.Group {
	p.h.t.Helper()
	g, err := p.c.Group(s, append(options, recipes.GroupOptions{Notify: p.told.note})...)
	require.NoError(p.h.t, err)
	return g
}

func (p *player) join(s recipes.GroupSpec, options ...recipes.GroupOptions) {
	p.h.t.Helper()
	ctx, cancel := context.WithTimeout(p.h.t.Context(), soon)
	defer cancel()
	var err error
	p.m, err = p.group(s, options...).Join(ctx, p.name, p)
	require.NoError(p.h.t, err)
	p.h.story.tell(p.name, "joined")
}

func (p *player) leave() {
	p.h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	p.h.story.tell(p.name, "leaves")
	require.NoError(p.h.t, p.m.Leave(ctx))
	p.h.story.tell(p.name, "has left")
}

func (p *player) note(what, lock string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, what+" "+lock)
}

func (p *player) OnLocked(ctx context.Context, grant recipes.LockGrant) {
	p.note("locked", grant.Lock)
	leave := p.h.referee.enter(grant, p.name)
	context.AfterFunc(ctx, func() {
		if _, lost := errors.AsType[*recipes.LostError](context.Cause(ctx)); lost { // else it is inside until OnReleased returns
			leave()
			p.mu.Lock()
			p.lost[grant.Lock] = time.Now()
			p.mu.Unlock()
		}
	})
	p.mu.Lock()
	f := p.locked
	p.mu.Unlock()
	if f != nil {
		f(ctx, grant)
	}
}

func (p *player) OnReleased(ctx context.Context, lock string) {
	cause := recipes.ReleaseCause(ctx)
	p.mu.Lock()
	f := p.released
	p.mu.Unlock()
	if f != nil {
		f(ctx, lock)
	}
	p.note("released", lock)
	if asked, ok := errors.AsType[*recipes.ReleaseAskedError](cause); ok {
		p.mu.Lock()
		p.gave = append(p.gave, lock)
		p.mu.Unlock()
		p.h.referee.leave(lock, p.name, asked.Token)
	}
}

func (p *player) OnDropped(_ context.Context, lock string) { p.note("dropped", lock) }

// history returns what was called for a lock.
func (p *player) history(lock string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var calls []string
	for _, line := range p.log {
		what, of, _ := strings.Cut(line, " ")
		if of == lock {
			calls = append(calls, what)
		}
	}
	return calls
}

func (p *player) gaveUp() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.gave)
}

func (p *player) locks() []string {
	var locks []string
	for _, grant := range p.m.Locks() {
		locks = append(locks, grant.Lock)
	}
	return locks
}

// state reads the group as an onlooker does.
func (h *house) state() recipes.GroupState {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	state, err := h.watcher.GroupState(ctx, groupName)
	require.NoError(h.t, err)
	return state
}

// share waits until the participants hold that many locks each, all that they
// were granted inside, and nobody releases.
func (h *house) share(s recipes.GroupSpec, want map[*player]int) {
	h.t.Helper()
	var seen string
	for deadline := time.Now().Add(soon); ; <-time.After(2 * time.Millisecond) {
		if seen = h.unlike(s, want); seen == "" {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(h.t, "the locks are not spread as they should be", seen)
		}
	}
}

func (h *house) unlike(s recipes.GroupSpec, want map[*player]int) string {
	total := 0
	for p, n := range want {
		if got := len(p.m.Locks()); got != n {
			return fmt.Sprintf("%s holds %d, not %d", p.name, got, n)
		}
		total += n
	}
	if inside := h.referee.count(); inside != total {
		return fmt.Sprintf("%d are inside, not %d", inside, total)
	}
	return ""
}

// expire ends the session of a client at the server.
func (h *house) expire(c *recipes.Client) {
	h.t.Helper()
	id, password := c.Session()
	require.NotZero(h.t, id)
	require.NoError(h.t, h.server.Expire(h.t.Context(), id, password))
	h.story.tell("server", "session 0x%x expired", uint64(id))
}

// members lists the nodes of participants that the server has.
func (h *house) members() []string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	paths, err := h.server.Ephemerals(ctx)
	require.NoError(h.t, err)
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, h.root+"/") })
}

func (h *house) nobodyThere() {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return len(h.members()) == 0 }, soon, 5*time.Millisecond, "participants are left at the server")
}

func (h *house) path(parts ...string) string {
	return strings.Join(append([]string{h.root, "groups", groupName}, parts...), "/")
}

// shell is an administrator's connection.
func (h *house) shell() *zk.Conn { return testbed.Shell(h.t, h.server) }

// zxid returns the number of the server's last transaction, by making one.
func (h *house) zxid(shell *zk.Conn) int64 {
	h.t.Helper()
	path, err := shell.Create("/zxid-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(h.t, err)
	_, stat, err := shell.Get(path)
	require.NoError(h.t, err)
	return stat.Czxid
}

// A referee counts who is inside of which lock, and looks at the tokens.
type referee struct {
	story   *story
	holders int

	mu     sync.Mutex
	inside map[string][]string
	tokens map[string]recipes.Token
	visits int
	fouls  []string
}

func (r *referee) enter(grant recipes.LockGrant, who string) (leave func()) {
	r.story.tell(who, "locked %s, token %s", grant.Lock, grant.Token)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits++
	r.inside[grant.Lock] = append(r.inside[grant.Lock], fmt.Sprint(who, grant.Token))
	if inside := r.inside[grant.Lock]; len(inside) > r.holders {
		r.fouls = append(r.fouls, fmt.Sprintf("%s is held by %q at once", grant.Lock, inside))
	}
	key := grant.Lock
	if r.holders > 1 { // those that hold it together may hear of it in any order
		key += who
	}
	if last := r.tokens[key]; grant.Token <= last {
		r.fouls = append(r.fouls, fmt.Sprintf("token %s of %s after %s", grant.Token, grant.Lock, last))
	}
	r.tokens[key] = grant.Token
	return func() { r.leave(grant.Lock, who, grant.Token) }
}

func (r *referee) leave(lock, who string, token recipes.Token) {
	r.story.tell(who, "out of %s", lock)
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.inside[lock], fmt.Sprint(who, token)); i >= 0 {
		r.inside[lock] = slices.Delete(r.inside[lock], i, i+1)
	}
}

// count returns how many are inside, over all locks.
func (r *referee) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, who := range r.inside {
		n += len(who)
	}
	return n
}

func (r *referee) visited() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visits
}

func (r *referee) wasFair(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.fouls) > 0 {
		t.Errorf("%d fouls, the first: %s", len(r.fouls), r.fouls[0])
	}
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

// told is what one participant was told.
type told struct {
	who     string
	story   *story
	mu      sync.Mutex
	notices []recipes.GroupNotice
	news    chan struct{}
	read    int
}

func newTold(s *story, who string) *told { return &told{who: who, story: s, news: make(chan struct{})} }

func (n *told) note(x recipes.GroupNotice) {
	n.story.tell(n.who, "%T %+v", x, x)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notices = append(n.notices, x)
	close(n.news)
	n.news = make(chan struct{})
}

// await waits for the next notice of a kind, behind the one awaited last.
func await[N recipes.GroupNotice](t testing.TB, n *told) N {
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

// all returns the notices of a kind that have come.
func all[N recipes.GroupNotice](n *told) (notices []N) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.notices {
		if x, ok := x.(N); ok {
			notices = append(notices, x)
		}
	}
	return notices
}
