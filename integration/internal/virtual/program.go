package virtual

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Program is a process that locks: a client, with a guard on it.
type Program struct {
	Name   string
	Client *lock.Client
	Guard  *lockguard.Guard
	World  *World

	mu     sync.Mutex
	events []lockguard.Event
}

// Program starts a program whose sessions have this timeout, before anything else happens.
func (w *World) Program(name string, session time.Duration, change ...func(*lock.Config)) *Program {
	w.Helper()
	p := w.Guard(name, w.Connect(name, session, change...))
	w.Begin() // to connect takes a moment
	return p
}

// Guard returns a program with a client that is there.
func (w *World) Guard(name string, client *lock.Client, options ...lockguard.Option) *Program {
	w.Helper()
	p := &Program{Name: name, Client: client, World: w}
	var err error
	own := []lockguard.Option{lockguard.WithOwner(name), lockguard.WithObserver(p.observe)}
	p.Guard, err = lockguard.New(client, append(own, options...)...)
	require.NoError(w, err)
	return p
}

func (p *Program) observe(_ context.Context, event lockguard.Event) {
	p.World.History.Add(p.Name, "%T %+v", event.Notice, event)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event)
}

// Told is what the observers of a program were told and when, in order: without what every request begins with
// (Waiting, Queued), and without AtRisk and RiskOver, which depend on when the client looks at its watch.
func (p *Program) Told() (lines []string) {
	for _, event := range Events[lock.Notice](p) {
		switch event.Notice.(type) {
		case lockguard.Waiting, lock.Queued, lock.AtRisk, lock.RiskOver:
		default:
			lines = append(lines, fmt.Sprintf("%s %s", p.World.Since(event.At), reflect.TypeOf(event.Notice).Name()))
		}
	}
	return lines
}

// Events returns the events with a notice of a kind that a program was told, in order.
func Events[N lock.Notice](p *Program) (found []lockguard.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.events {
		if _, ok := event.Notice.(N); ok {
			found = append(found, event)
		}
	}
	return found
}

// Only returns the one notice of a kind that a program was told.
func Only[N lock.Notice](p *Program) N {
	p.World.Helper()
	return the[N](p).Notice.(N)
}

// About returns the subject of the one notice of a kind that a program was told.
func About[N lock.Notice](p *Program) lockguard.Subject {
	p.World.Helper()
	return the[N](p).Subject
}

// the returns the one event with a notice of a kind that a program was told.
func the[N lock.Notice](p *Program) lockguard.Event {
	p.World.Helper()
	found := Events[N](p)
	require.Len(p.World, found, 1, "%s was told %v of %T", p.Name, found, *new(N))
	return found[0]
}

// Session returns what the server knows of the program's session.
func (p *Program) Session() zktest.Session {
	p.World.Helper()
	for _, s := range p.World.Sessions() {
		if id, _ := p.Client.Session(); s.ID == id {
			return s
		}
	}
	require.FailNow(p.World, "the server knows no session of "+p.Name)
	return zktest.Session{}
}

// Lock is a lock as the program sees it.
func (p *Program) Lock(scope string) lock.State {
	p.World.Helper()
	state, err := p.Client.Lock(p.World.Context(), scope)
	require.NoError(p.World, err)
	return state
}

// Acquire acquires a lock at the client, past the guard, for a day unless the request says otherwise.
func (p *Program) Acquire(scope string, r lock.Request) (*lock.Grant, error) {
	p.World.Helper()
	l, err := p.Client.PriorityLock(scope)
	require.NoError(p.World, err)
	r.LeaseTimeout = cmp.Or(r.LeaseTimeout, Day)
	return l.Acquire(p.World.Context(), r)
}

// Take is Acquire of what is granted.
func (p *Program) Take(scope string, r lock.Request) *lock.Grant {
	p.World.Helper()
	g, err := p.Acquire(scope, r)
	require.NoError(p.World, err)
	return g
}

// Work is one call that works under locks, in the background.
type Work struct {
	Program *Program

	done chan struct{}

	// These are set when done is closed.
	err   error
	ended time.Duration

	mu    sync.Mutex
	begun *lockguard.Hold
	at    time.Duration
}

// Do works under a lock: that of Scope, with a lease of a day, unless the requirement says otherwise. It comes as far
// as it does at once.
func (p *Program) Do(r lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) *Work {
	p.World.Helper()
	r.Scope, r.LeaseTimeout = cmp.Or(r.Scope, Scope), cmp.Or(r.LeaseTimeout, Day)
	return p.Start(func(ctx context.Context, x *Work) error { return p.Guard.Do(ctx, r, x.Under(work), hooks...) })
}

// Start is Do for any other call.
func (p *Program) Start(call func(context.Context, *Work) error) *Work {
	p.World.Helper()
	x := &Work{Program: p, done: make(chan struct{})}
	p.World.Cleanup(func() { <-x.done }) // the end of the test's context shuts it down; the client is closed after that
	go func() {
		defer close(x.done)
		x.err = call(p.World.Context(), x)
		x.ended = p.World.Now()
		p.World.History.Add(p.Name, "done: %v", x.err)
	}()
	synctest.Wait()
	return x
}

// Under is work that notes when it begins, and under which hold.
func (x *Work) Under(work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		x.mu.Lock()
		x.begun, _ = lockguard.FromContext(ctx)
		x.at = x.Program.World.Now()
		x.mu.Unlock()
		return work(ctx)
	}
}

// Hold returns what the work has in its context; nil before it begins.
func (x *Work) Hold() *lockguard.Hold {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begun
}

// Began returns when the work began.
func (x *Work) Began() time.Duration {
	x.Program.World.Helper()
	require.NotNil(x.Program.World, x.Hold(), "the work of %s has not begun", x.Program.Name)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.at
}

// Returned waits for the end of the call and returns its error.
func (x *Work) Returned() error {
	x.Program.World.Helper()
	select {
	case <-x.done:
	case <-time.After(2 * Day):
		require.FailNow(x.Program.World, x.Program.Name+"'s call has not returned")
	}
	synctest.Wait()
	return x.err
}

// Ended waits for the end of the call and returns when that was.
func (x *Work) Ended() time.Duration {
	x.Program.World.Helper()
	_ = x.Returned()
	return x.ended
}

// Holds reports whether the work runs and was not told to stop.
func (x *Work) Holds() bool {
	hold := x.Hold()
	return hold != nil && hold.Context().Err() == nil && hold.Check() == nil
}

// UntilCancelled is work that stops when its context ends.
func UntilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Lasting is work, or a hook, that takes that long whatever its context says.
func Lasting(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		<-time.After(d)
		return nil
	}
}

// LostBy returns why a lock was lost, as an error says.
func LostBy(t testing.TB, err error) *lockguard.LostError {
	t.Helper()
	var lost *lockguard.LostError
	require.ErrorAs(t, err, &lost)
	return lost
}
