package helix

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// scope is what all requests are for.
const scope = "users"

// fixture is a harness.Fixture for guards that contend for one scope.
type fixture struct {
	*harness.Fixture
	onlooker func() *lock.Client
}

// newFixture returns a fixture on the shared server, for a test that runs beside others.
func newFixture(t *testing.T) *fixture {
	t.Parallel()
	f := &fixture{Fixture: harness.New(t, shared.Server(t))}
	f.onlooker = sync.OnceValue(func() *lock.Client { return f.Client() })
	return f
}

// state reads the lock.
func (f *fixture) state() lock.State {
	f.Helper()
	return f.State(f.onlooker(), scope)
}

// holder reads who has the lock: "" without a holder.
func (f *fixture) holder() string {
	f.Helper()
	return strings.Join(harness.Owners(f.state().Holders), " and ")
}

// waiters reads who is in the queue, the next one first.
func (f *fixture) waiters() []string {
	f.Helper()
	return harness.Owners(f.state().Waiters)
}

// record is what a node says, and what shows that it or its children were touched.
type record struct {
	data                      string
	session                   int64
	created, written, altered int64 // zxids; altered is when a child came or went
}

// records reads every node of every lock.
func (f *fixture) records() map[string]record {
	f.Helper()
	all := map[string]record{}
	var walk func(path string)
	walk = func(path string) {
		var data []byte
		var stat *zk.Stat
		err := f.Sent(func() (err error) { data, stat, err = f.Shell().Get(path); return err })
		if errors.Is(err, zk.ErrNoNode) {
			return
		}
		require.NoError(f, err, path)
		all[path] = record{string(data), stat.EphemeralOwner, stat.Czxid, stat.Mzxid, stat.Pzxid}
		for _, name := range f.Children(path) {
			walk(path + "/" + name)
		}
	}
	walk(f.Root + "/locks")
	return all
}

// unchanged does something that must leave every record as it was.
func (f *fixture) unchanged(do func()) {
	f.Helper()
	before := f.records()
	do()
	require.Equal(f, before, f.records(), "a record was touched")
}

// change makes a requirement another one than "exclusive, priority 0, polite, wait as long as it takes, nothing to
// clean up".
type change func(*lockguard.Requirement)

func at(level priority.Level) change {
	return func(r *lockguard.Requirement) { r.Priority = level }
}

func cleanup(d time.Duration) change {
	return func(r *lockguard.Requirement) { r.CleanupTimeout = d }
}

func lease(d time.Duration) change {
	return func(r *lockguard.Requirement) { r.LeaseTimeout = d }
}

func waiting(d time.Duration) change {
	return func(r *lockguard.Requirement) { r.WaitingTimeout = &d }
}

func within(d time.Duration) change {
	return func(r *lockguard.Requirement) { r.AcquireTimeout = &d }
}

func forceful(r *lockguard.Requirement) { r.Forceful = true }

// try asks for what needs no preemption and no wait.
var try = within(0)

func requirement(changes ...change) lockguard.Requirement {
	r := lockguard.Requirement{Scope: scope}
	for _, f := range changes {
		f(&r)
	}
	return r
}

// events are what the observer of one guard was told.
type events struct {
	*harness.Notices[lockguard.Event]
}

// guard returns a guard whose events are collected.
func (f *fixture) guard(c *lock.Client, owner string) (*lockguard.Guard, events) {
	f.Helper()
	told := events{harness.NewNotices[lockguard.Event](f.History, owner)}
	g, err := lockguard.New(c, lockguard.WithOwner(owner), lockguard.WithObserver(func(_ context.Context, e lockguard.Event) {
		f.History.Add(owner, "%s", name(e))
		told.Add(e)
	}))
	require.NoError(f, err)
	return g, told
}

// name is what the notice of an event is called: "Acquired".
func name(e lockguard.Event) string { return reflect.TypeOf(e.Notice).Name() }

// names lists what has happened so far.
func (e events) names() []string {
	var all []string
	for _, event := range e.List() {
		all = append(all, name(event))
	}
	return all
}

// user is one request under a guard of its own, and then its Hold; or, made by work, work under the lock.
type user struct {
	*harness.Call[*lockguard.Hold] // returns when the lock is held
	events

	f      *fixture
	owner  string
	cancel context.CancelCauseFunc // ends the context that it asked with
	work   *harness.Call[struct{}] // of work: returns as Do does
}

// await waits for the next notice of a kind, behind the one awaited last.
func await[N lock.Notice](u *user) N {
	u.f.Helper()
	return awaitEvent[N](u).Notice.(N)
}

// awaitEvent is await, and has the subject as well.
func awaitEvent[N lock.Notice](u *user) lockguard.Event {
	u.f.Helper()
	for {
		event := harness.Await[lockguard.Event](u.f, u.Notices)
		if _, ok := event.Notice.(N); ok {
			return event
		}
	}
}

// none checks that no notice of a kind has come.
func none[N lock.Notice](u *user) {
	u.f.Helper()
	for _, event := range u.List() {
		_, is := event.Notice.(N)
		require.False(u.f, is, "%s was told %+v", u.owner, event)
	}
}

func (f *fixture) newUser(c *lock.Client, owner string) (*user, *lockguard.Guard, context.Context) {
	f.Helper()
	guard, told := f.guard(c, owner)
	ctx, cancel := context.WithCancelCause(context.Background())
	return &user{f: f, events: told, owner: owner, cancel: cancel}, guard, ctx
}

// ask requests the lock in the background. What is still held at the end of the test is released then.
func (f *fixture) ask(c *lock.Client, owner string, changes ...change) *user {
	f.Helper()
	u, guard, ctx := f.newUser(c, owner)
	u.Call = harness.Go(f, owner+"'s request", func() (*lockguard.Hold, error) { return guard.Acquire(ctx, requirement(changes...)) })
	f.Cleanup(func() {
		u.cancel(context.Canceled)
		if hold, _ := u.Wait(); hold != nil {
			_ = hold.Release(context.Background())
		}
	})
	return u
}

// asks is ask by a client of its own.
func (f *fixture) asks(owner string, changes ...change) *user {
	f.Helper()
	return f.ask(f.Client(), owner, changes...)
}

// hold is ask for what is granted without a wait for others.
func (f *fixture) hold(c *lock.Client, owner string, changes ...change) *user {
	f.Helper()
	u := f.ask(c, owner, changes...)
	u.Granted()
	return u
}

// holds is hold by a client of its own.
func (f *fixture) holds(owner string, changes ...change) *user {
	f.Helper()
	return f.hold(f.Client(), owner, changes...)
}

// works runs work under the lock until its context ends, and then hooks if there are any. It returns when the work runs.
func (f *fixture) works(owner string, hooks []lockguard.Hook, changes ...change) *user {
	f.Helper()
	u, guard, ctx := f.newUser(f.Client(), owner)
	begun := make(chan *lockguard.Hold, 1)
	u.work = harness.Go(f, owner+"'s work", func() (struct{}, error) {
		return struct{}{}, guard.Do(ctx, requirement(changes...), func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			begun <- hold
			<-ctx.Done()
			return context.Cause(ctx)
		}, hooks...)
	})
	u.Call = harness.Go(f, owner+"'s request", func() (*lockguard.Hold, error) {
		select {
		case hold := <-begun:
			return hold, nil
		case <-u.work.Done():
			return nil, errors.New("the work has ended before it began")
		}
	})
	f.Cleanup(func() {
		u.cancel(context.Canceled)
		<-u.work.Done()
	})
	u.Granted()
	return u
}

// ended waits until work has ended, and returns its error.
func (u *user) ended() error {
	u.f.Helper()
	_, err := u.work.Wait()
	return err
}

func (u *user) release() {
	u.f.Helper()
	err := u.Granted().Release(context.Background())
	if errors.Is(err, context.DeadlineExceeded) { // on a busy machine it goes on in the background
		harness.Eventually(u.f, func() bool { return u.f.holder() != u.owner }, "%s's release", u.owner)
		return
	}
	require.NoError(u.f, err, "%s's release", u.owner)
}

func (u *user) token() lockguard.Token {
	u.f.Helper()
	return u.Granted().Token()
}

// interrupted waits until the context of the work has ended, and returns why.
func (u *user) interrupted() error {
	u.f.Helper()
	ctx := u.Granted().Context()
	harness.Receive(u.f, ctx.Done(), "%s has not been interrupted", u.owner)
	return context.Cause(ctx)
}

// loses waits until the lock is no longer held.
func (u *user) loses() *lockguard.LostError {
	u.f.Helper()
	hold := u.Granted()
	harness.Receive(u.f, hold.Lost(), "%s has not been told that it has lost the lock", u.owner)
	require.Error(u.f, hold.Context().Err(), "%s's loss showed before its context had ended", u.owner)
	return await[lockguard.Lost](u).Err
}

// undisturbed checks that a holder has heard of nothing.
func (u *user) undisturbed() {
	u.f.Helper()
	require.NoError(u.f, context.Cause(u.Granted().Context()), "%s was interrupted", u.owner)
	none[lock.PreemptRequested](u)
	require.Empty(u.f, u.f.state().Holders[0].PreemptedBy, "%s is preempted", u.owner)
}

// past returns a Hold that was released.
func (f *fixture) past(c *lock.Client, owner string, changes ...change) *lockguard.Hold {
	f.Helper()
	u := f.hold(c, owner, changes...)
	u.release()
	return u.Granted()
}

// chore is a cleanup hook that takes until its context ends, whatever time it was given, or until the lock is lost.
type chore struct {
	f     *fixture
	begun chan struct{} // closed when the hook runs
	end   func()
	over  chan struct{}
	runs  atomic.Int32
	cause error // with which the context of the hook had ended when it returned
}

func newChore(f *fixture) *chore {
	c := &chore{f: f, begun: make(chan struct{}), over: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.over) })
	return c
}

// begins waits until the hook runs.
func (c *chore) begins() {
	c.f.Helper()
	harness.Receive(c.f, c.begun, "the cleanup has not begun")
}

func (c *chore) hook(ctx context.Context) error {
	if c.runs.Add(1) == 1 {
		close(c.begun)
	}
	hold, _ := lockguard.FromContext(ctx)
	select {
	case <-c.over:
	case <-hold.Lost():
	case <-c.f.Context().Done(): // the test has ended
	}
	c.cause = context.Cause(ctx)
	return nil
}
