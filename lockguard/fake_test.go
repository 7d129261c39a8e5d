package lockguard

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const scope = "cluster/orders"

var errWork = errors.New("disk full")

// A fakeLocker grants every request at once, unless told otherwise.
type fakeLocker struct {
	mu     sync.Mutex
	grants []*fakeGrant

	// before runs before the grant; an error refuses it.
	before func(ctx context.Context, g *fakeGrant) error
	// prepare changes a grant before it is returned.
	prepare func(g *fakeGrant)
}

func (l *fakeLocker) acquire(ctx context.Context, scope string, request lock.Request) (grant, error) {
	g := &fakeGrant{scope: scope, request: request, deadline: time.Now().Add(15 * time.Second)}
	g.token = func(context.Context) (lock.Token, error) { return g.number, nil }
	g.extend = func(context.Context, time.Duration) error { return nil }
	g.protect = func(context.Context, time.Duration) error { return nil }
	g.release = func(context.Context) error { return nil }
	g.check = func() error { return nil }
	if l.before != nil {
		if err := l.before(ctx, g); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants = append(l.grants, g)
	g.number = lock.Token(100 + len(l.grants))
	if l.prepare != nil {
		l.prepare(g)
	}
	return g, nil
}

func (l *fakeLocker) join(ctx context.Context, ref Reference, request lock.Request) (grant, error) {
	return l.acquire(ctx, ref.Scope, request)
}

func (l *fakeLocker) adopt(ctx context.Context, ref Reference, request lock.Request) (grant, error) {
	return l.acquire(ctx, ref.Scope, request)
}

func (l *fakeLocker) last() *fakeGrant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grants[len(l.grants)-1]
}

// of returns the last grant of a scope.
func (l *fakeLocker) of(t *testing.T, scope string) *fakeGrant {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range slices.Backward(l.grants) {
		if g.scope == scope {
			return g
		}
	}
	require.FailNow(t, "not granted", scope)
	return nil
}

type fakeGrant struct {
	scope    string
	request  lock.Request
	number   lock.Token
	deadline time.Time
	token    func(ctx context.Context) (lock.Token, error)
	extend   func(ctx context.Context, lease time.Duration) error
	protect  func(ctx context.Context, least time.Duration) error
	release  func(ctx context.Context) error
	check    func() error

	mu           sync.Mutex
	releases     int
	downgrades   int
	downgradeErr error
	downgrade    func()
}

func (g *fakeGrant) ID() string { return "guid-" + g.number.String() }
func (g *fakeGrant) Reference() Reference {
	return Reference{Scope: g.scope, Hold: g.request.Hold, ID: g.ID(), Token: g.number, Mode: g.request.Mode}
}

func (g *fakeGrant) Terms() priority.Terms                         { return g.request.Terms }
func (g *fakeGrant) Mode() priority.Mode                           { return g.request.Mode }
func (g *fakeGrant) LeaseDeadline() time.Time                      { return time.Now().Add(g.request.LeaseTimeout) }
func (g *fakeGrant) Token(ctx context.Context) (lock.Token, error) { return g.token(ctx) }
func (g *fakeGrant) Deadline() time.Time                           { return g.deadline }
func (g *fakeGrant) Check() error                                  { return g.check() }
func (g *fakeGrant) Extend(ctx context.Context, lease time.Duration) error {
	return g.extend(ctx, lease)
}

func (g *fakeGrant) Protect(ctx context.Context, least time.Duration) error {
	return g.protect(ctx, least)
}

func (g *fakeGrant) Downgrade(context.Context) error {
	if g.downgrade != nil {
		g.downgrade()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.downgrades++
	return g.downgradeErr
}

func (g *fakeGrant) Release(ctx context.Context) error {
	g.mu.Lock()
	g.releases++
	g.mu.Unlock()
	return g.release(ctx)
}

func (g *fakeGrant) released() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.releases
}

// preempt preempts the holder, as "hotfix" with priority 9 would.
func (g *fakeGrant) preempt(grace time.Duration) { g.ask(priority.Outranked, grace) }

func (g *fakeGrant) ask(reason priority.Reason, grace time.Duration) {
	g.request.Notify(lock.PreemptRequested{
		By:       lock.Contender{Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: 9}},
		Reason:   reason,
		Grace:    grace,
		Deadline: time.Now().Add(grace),
		Forceful: true,
	})
}

func (g *fakeGrant) lose(reason lock.LossReason) *LostError {
	lost := &LostError{Scope: g.scope, Token: g.number, Reason: reason}
	g.release = func(context.Context) error { return lost }
	g.request.Notify(lock.Lost{Err: lost})
	return lost
}

// events records what an observer gets.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) observe(_ context.Context, event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) list() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// names are the types of the notices, in order.
func (e *events) names() []string {
	var names []string
	for _, event := range e.list() {
		names = append(names, reflect.TypeOf(event.Notice).Name())
	}
	return names
}

// of returns the types of the notices about one scope, in order.
func (e *events) of(scope string) []string {
	var names []string
	for _, event := range e.list() {
		if event.Scope == scope {
			names = append(names, reflect.TypeOf(event.Notice).Name())
		}
	}
	return names
}

// only returns the one notice of type N.
func only[N lock.Notice](t *testing.T, e *events) N { return event[N](t, e).Notice.(N) }

// about returns the subject of the one notice of type N.
func about[N lock.Notice](t *testing.T, e *events) Subject { return event[N](t, e).Subject }

// event returns the one event with a notice of type N.
func event[N lock.Notice](t *testing.T, e *events) Event {
	t.Helper()
	var found []Event
	for _, event := range e.list() {
		if _, ok := event.Notice.(N); ok {
			found = append(found, event)
		}
	}
	require.Len(t, found, 1, "events: %v", e.names())
	return found[0]
}

// setup is a Guard over a fake locker, with a recorder of its events.
type setup struct {
	*Guard
	locker *fakeLocker
	events *events
}

func newSetup(t *testing.T, options ...Option) setup {
	t.Helper()
	s := setup{locker: &fakeLocker{}, events: &events{}}
	g, err := newGuard(s.locker, append([]Option{WithObserver(s.events.observe), WithOwner("compact")}, options...)...)
	require.NoError(t, err)
	s.Guard = g
	return s
}

// virtual runs a test of a guard in virtual time. It also fails when a goroutine outlives the test.
func virtual(t *testing.T, f func(t *testing.T, s setup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newSetup(t)) })
}

func runVirtual(t *testing.T, name string, f func(t *testing.T, s setup)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { virtual(t, f) })
}

// required is a requirement with a minute of cleanup.
func required() Requirement {
	return Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: time.Minute}}
}

// untilCancelled is work that runs until its context ends.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// as returns the error of type E in err.
func as[E error](t *testing.T, err error) E {
	t.Helper()
	var e E
	require.ErrorAs(t, err, &e)
	return e
}

// requirePreempted checks that err says who preempted.
func requirePreempted(t *testing.T, err error) *PreemptedError {
	t.Helper()
	preempted := as[*PreemptedError](t, err)
	require.Equal(t, "hotfix", preempted.By)
	require.Equal(t, priority.Level(9), preempted.Priority)
	return preempted
}
