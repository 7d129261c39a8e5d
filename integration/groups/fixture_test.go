package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const groupName = "lock-group"

// A fixture is the shared one, and the referee of the locks.
type fixture struct {
	*harness.Fixture
	zk      *zktest.Server // in virtual time
	referee *referee
	watcher *lock.Client // looks, and takes no part
}

func share(t testing.TB) *fixture { return newFixture(t, shared.Server(t), nil) }

// alone returns a fixture on a server that the test may stop.
func alone(t testing.TB) *fixture { return newFixture(t, testbed.Start(t, testbed.Settings{}), nil) }

// virtually plays a test in virtual time, on an embedded server.
func virtually(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newFixture(t, nil, zktest.RunT(t, zktest.Pipe()))) })
}

func newFixture(t testing.TB, server testbed.Server, zk *zktest.Server) *fixture {
	f := &fixture{Fixture: harness.New(t, server), zk: zk}
	f.referee = &referee{history: f.History, holders: 1, inside: map[string][]string{}, tokens: map[string]lock.Token{}}
	f.watcher = f.client()
	t.Cleanup(func() { f.referee.wasFair(t) })
	return f
}

func (f *fixture) client(change ...func(*lock.Config)) *lock.Client {
	f.Helper()
	if f.zk == nil {
		return f.Client(change...)
	}
	cfg := lock.Config{Dialer: f.zk.Dialer("client"), Root: f.Root, SessionTimeout: 10 * time.Second}
	for _, apply := range change {
		apply(&cfg)
	}
	return harness.NewClient(f, cfg)
}

// from makes a client dial under a name that the embedded server can cut off.
func (f *fixture) from(name string) func(*lock.Config) {
	return func(cfg *lock.Config) { cfg.Dialer = f.zk.Dialer(name) }
}

// pass lets time pass, and all clients do what is due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// spec declares n locks.
func spec(n int, change ...func(*group.Spec)) group.Spec {
	s := group.Spec{Name: groupName, Locks: group.NumberedLocks(groupName, n)}
	for _, apply := range change {
		apply(&s)
	}
	return s
}

func debounce(d time.Duration) func(*group.Spec) {
	return func(s *group.Spec) { s.Debounce = d }
}

func strategy(name string) func(*group.Spec) {
	return func(s *group.Spec) { s.Strategy = name }
}

// apply writes a spec, as an administrator does, and reports whether that changed anything.
func (f *fixture) apply(s group.Spec) bool {
	f.Helper()
	g, err := group.New(f.watcher.Client, s)
	require.NoError(f, err)
	changed, err := g.Apply(f.Context())
	require.NoError(f, err)
	return changed
}

// A player is one participant under the eyes of the referee.
type player struct {
	*harness.Notices[group.Notice]
	f    *fixture
	name string
	c    *lock.Client
	m    *group.Member

	mu       sync.Mutex
	log      []string // callbacks
	released func(ctx context.Context, lock string)
	locked   func(ctx context.Context, grant group.LockGrant)
	gave     []string        // locks that it was asked to release
	lost     map[string]bool // locks whose contexts ended with a loss
}

var _ group.Handler = (*player)(nil)

// join makes a participant with a client of its own join, and leave at the end.
func (f *fixture) join(s group.Spec, name string, change ...func(*lock.Config)) *player {
	f.Helper()
	p := f.player(name, f.client(change...))
	p.join(s)
	return p
}

func (f *fixture) player(name string, c *lock.Client) *player {
	p := &player{Notices: harness.NewNotices[group.Notice](f.History, name), f: f, name: name, c: c, lost: map[string]bool{}}
	f.Cleanup(func() { // before the client is closed
		if p.m == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := p.m.Leave(ctx); err != nil && !errors.Is(err, lock.ErrClosed) {
			f.Errorf("%s has not left: %v", name, err)
		}
	})
	return p
}

func (p *player) group(s group.Spec, options ...group.Options) *group.Group {
	p.f.Helper()
	g, err := group.New(p.c.Client, s, append([]group.Options{{Notify: p.Add}}, options...)...)
	require.NoError(p.f, err)
	return g
}

func (p *player) join(s group.Spec, options ...group.Options) {
	p.f.Helper()
	ctx, cancel := context.WithTimeout(p.f.Context(), harness.Patience)
	defer cancel()
	var err error
	p.m, err = p.group(s, options...).Join(ctx, p.name, p)
	require.NoError(p.f, err)
	p.f.History.Add(p.name, "joined")
}

func (p *player) leave() {
	p.f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	p.f.History.Add(p.name, "leaves")
	require.NoError(p.f, p.m.Leave(ctx))
}

// leaves begins to leave.
func (p *player) leaves() *harness.Running {
	return harness.Run(p.f, p.name+"'s leave", func(context.Context) error { return p.m.Leave(context.Background()) })
}

// note adds to the log.
func (p *player) note(what, lock string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, what+" "+lock)
}

func (p *player) OnLocked(ctx context.Context, grant group.LockGrant) {
	p.note("locked", grant.Lock)
	leave := p.f.referee.enter(grant, p.name)
	context.AfterFunc(ctx, func() {
		if _, lost := errors.AsType[*lock.LostError](context.Cause(ctx)); lost { // else it is inside until OnReleased returns
			p.mu.Lock()
			p.lost[grant.Lock] = true // before others can have it
			p.mu.Unlock()
			leave()
		}
	})
	p.mu.Lock()
	call := p.locked
	p.mu.Unlock()
	if call != nil {
		call(ctx, grant)
	}
}

func (p *player) OnReleased(ctx context.Context, lock string) {
	cause := group.ReleaseCause(ctx)
	p.mu.Lock()
	call := p.released
	p.mu.Unlock()
	if call != nil {
		call(ctx, lock)
	}
	p.note("released", lock)
	if asked, ok := errors.AsType[*group.ReleaseAskedError](cause); ok {
		p.mu.Lock()
		p.gave = append(p.gave, lock)
		p.mu.Unlock()
		p.f.referee.leave(lock, p.name, asked.Token)
	}
}

func (p *player) OnDropped(_ context.Context, lock string) { p.note("dropped", lock) }

// onRelease is what the player does from now on when it releases.
func (p *player) onRelease(call func(ctx context.Context, lock string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = call
}

// history returns what was called for a lock.
func (p *player) history(lock string) (calls []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.log {
		if what, of, _ := strings.Cut(line, " "); of == lock {
			calls = append(calls, what)
		}
	}
	return calls
}

// given counts how often players were asked to release a lock.
func given(players ...*player) (n int) {
	for _, p := range players {
		p.mu.Lock()
		n += len(p.gave)
		p.mu.Unlock()
	}
	return n
}

func (p *player) locks() (locks []string) {
	for _, grant := range p.m.Locks() {
		locks = append(locks, grant.Lock)
	}
	return locks
}

// state reads the group as an onlooker does.
func (f *fixture) state() group.State {
	f.Helper()
	state, err := group.StateOf(f.Context(), f.watcher.Client, groupName)
	require.NoError(f, err)
	return state
}

// share waits until players hold n locks each, all that they were granted inside, and no other player is
// inside.
func (f *fixture) share(n int, players ...*player) {
	f.Helper()
	harness.Eventually(f, func() bool {
		for _, p := range players {
			if len(p.m.Locks()) != n {
				return false
			}
		}
		return f.referee.count() == n*len(players)
	}, "%d do not hold %d each", len(players), n)
}

func (f *fixture) path(parts ...string) string {
	return strings.Join(append([]string{f.Root, "groups", groupName}, parts...), "/")
}

// A referee counts who is inside of which lock, and looks at the tokens.
type referee struct {
	history *harness.History
	holders int

	mu     sync.Mutex
	inside map[string][]string
	tokens map[string]lock.Token
	fouls  []string
}

func (r *referee) enter(grant group.LockGrant, who string) (leave func()) {
	r.history.Add(who, "locked %s, token %s", grant.Lock, grant.Token)
	r.mu.Lock()
	defer r.mu.Unlock()
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

func (r *referee) leave(lock, who string, token lock.Token) {
	r.history.Add(who, "out of %s", lock)
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.inside[lock], fmt.Sprint(who, token)); i >= 0 {
		r.inside[lock] = slices.Delete(r.inside[lock], i, i+1)
	}
}

// clear takes out the player inside of a lock: its callback will not say so.
func (r *referee) clear(lock string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, lock)
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

func (r *referee) wasFair(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.fouls)
}
