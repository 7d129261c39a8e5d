package harness

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Request is one request for a priority lock, and then its grant.
type Request struct {
	*Call[*lock.Grant]
	*Notices[lock.Notice]

	Owner string

	f      *Fixture
	cancel context.CancelFunc
}

// Option changes a request: by default it is exclusive, of priority 0, polite, and waits as long as it takes.
type Option = func(*lock.Request)

// At gives a request a priority.
func At(level priority.Level) Option { return func(r *lock.Request) { r.Priority = level } }

// Within bounds the whole wait; 0 is a try.
func Within(d time.Duration) Option { return func(r *lock.Request) { r.AcquireTimeout = &d } }

// Waiting sets the waiting timeout.
func Waiting(d time.Duration) Option { return func(r *lock.Request) { r.WaitingTimeout = &d } }

// Cleanup sets the cleanup timeout.
func Cleanup(d time.Duration) Option { return func(r *lock.Request) { r.CleanupTimeout = d } }

// Lease sets the lease timeout.
func Lease(d time.Duration) Option { return func(r *lock.Request) { r.LeaseTimeout = d } }

// Try acquires what is free, and waits for nothing.
func Try(r *lock.Request) { Within(0)(r) }

// Shared makes a reader.
func Shared(r *lock.Request) { r.Mode = priority.Shared }

// Forceful takes the lock over at the end of the holder's grace period.
func Forceful(r *lock.Request) { r.Forceful = true }

// Lock returns the priority lock of a scope.
func (f *Fixture) Lock(c *lock.Client, scope string) *lock.PriorityLock {
	f.Helper()
	l, err := c.PriorityLock(scope)
	require.NoError(f, err)
	return l
}

// Acquire requests a lock in the background. The request is cancelled, and its grant released, at the end of the test.
func (f *Fixture) Acquire(l *lock.PriorityLock, owner string, options ...Option) *Request {
	f.Helper()
	return f.Start(owner, l.Acquire, options...)
}

// Start is Acquire with another function that acquires, such as Join.
func (f *Fixture) Start(
	owner string, acquire func(context.Context, lock.Request) (*lock.Grant, error), options ...Option,
) *Request {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &Request{Notices: NewNotices[lock.Notice](f.History, owner), Owner: owner, f: f, cancel: cancel}
	request := lock.Request{Identity: priority.Identity{Owner: owner}, Notify: r.Add}
	for _, option := range options {
		option(&request)
	}
	r.Call = Go(f, owner+"'s request", func() (*lock.Grant, error) {
		grant, err := acquire(ctx, request)
		f.History.Add(owner, "acquire: error %v", err)
		return grant, err
	})
	f.Cleanup(func() { // before the client is closed
		cancel()
		<-r.Done()
		r.heardInOrder()
		if r.value != nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience(f))
			defer cancel()
			_ = r.value.Release(ctx) // it may be released, or lost
		}
	})
	return r
}

// Hold acquires what is granted without a wait for others.
func (f *Fixture) Hold(l *lock.PriorityLock, owner string, options ...Option) *Request {
	f.Helper()
	r := f.Acquire(l, owner, options...)
	r.Granted()
	return r
}

// Cancel ends the context of the request.
func (r *Request) Cancel() { r.cancel() }

// Queued waits until the request has its place in the queue, with its watches set.
func (r *Request) Queued() lock.Queued {
	r.f.Helper()
	return Await[lock.Queued](r.f, r.Notices)
}

// Lost waits until the request was told that its grant is lost.
func (r *Request) Lost() lock.Lost {
	r.f.Helper()
	return Await[lock.Lost](r.f, r.Notices)
}

// Release releases the grant.
func (r *Request) Release() {
	r.f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	require.NoError(r.f, r.Granted().Release(ctx), "%s's release", r.Owner)
	r.f.History.Add(r.Owner, "released")
}

// Token returns the token of the grant.
func (r *Request) Token() lock.Token {
	r.f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	token, err := r.Granted().Token(ctx)
	require.NoError(r.f, err, "%s's token", r.Owner)
	return token
}

// Node returns the path of the node of the grant.
func (r *Request) Node() string {
	r.f.Helper()
	return r.f.NodeOf(r.Granted().ID())
}

func (r *Request) heardInOrder() {
	r.f.Helper()
	r.InTurn(r.f)
	list := r.List()
	for i, notice := range list {
		if _, lost := notice.(lock.Lost); lost && i < len(list)-1 {
			r.f.Errorf("%s was notified of %T after its loss", r.Owner, list[i+1])
		}
	}
}

// State reads a lock.
func (f *Fixture) State(c *lock.Client, scope string) lock.State {
	f.Helper()
	state, err := c.Lock(f.Context(), scope)
	require.NoError(f, err)
	return state
}

// Owners returns the owners of holders or waiters, in their order.
func Owners(contenders []lock.Contender) []string {
	owners := make([]string, len(contenders))
	for i, c := range contenders {
		owners[i] = c.Owner
	}
	return owners
}
