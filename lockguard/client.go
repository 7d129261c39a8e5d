package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// New returns a Guard that takes its locks through client. The client is the
// caller's to close, after all work has ended.
func New(client *lock.Client, options ...Option) (*Guard, error) {
	if client == nil {
		return nil, errors.New("lockguard: New: the client is nil; make one with lock.NewClient")
	}
	return newGuard(clientLocker{locks: client, home: client}, options...)
}

// NewRouted returns a Guard that takes each lock on the ensemble that router has it
// on. The clients are the caller's to close, after all work has ended.
//
// Several locks that are on different ensembles are refused with a *RequestError,
// be they wanted at once (DoAll, AcquireAll) or one under the other: a deadlock
// of two holders across ensembles would not be detected, and while one ensemble is away,
// locks of the other one would be held for nothing.
func NewRouted(router *lock.Router, options ...Option) (*Guard, error) {
	if router == nil {
		return nil, errors.New("lockguard: NewRouted: the router is nil; make one with lock.NewRouter")
	}
	return newGuard(clientLocker{locks: router, home: router.Home(), router: router}, options...)
}

// clientLocker is the locker that a real Guard has.
type clientLocker struct {
	locks interface {
		PriorityLock(scope string) (*lock.PriorityLock, error)
	}
	home   *lock.Client
	router *lock.Router // nil: home has all locks
}

func (l clientLocker) acquire(ctx context.Context, scope string, request lock.Request) (grant, error) {
	lock, err := l.locks.PriorityLock(scope)
	if err != nil {
		return nil, err
	}
	g, err := lock.Acquire(ctx, request)
	if err != nil {
		return nil, err // not a nil *Grant in an interface
	}
	return g, nil
}

func (l clientLocker) join(ctx context.Context, ref Reference, request lock.Request) (grant, error) {
	return l.accede(ctx, ref, request, (*lock.PriorityLock).Join)
}

func (l clientLocker) adopt(ctx context.Context, ref Reference, request lock.Request) (grant, error) {
	return l.accede(ctx, ref, request, (*lock.PriorityLock).Adopt)
}

func (l clientLocker) accede(ctx context.Context, ref Reference, request lock.Request,
	how func(*lock.PriorityLock, context.Context, Reference, lock.Request) (*lock.Grant, error),
) (grant, error) {
	lock, err := l.locks.PriorityLock(ref.Scope)
	if err != nil {
		return nil, err
	}
	g, err := how(lock, ctx, ref, request)
	if err != nil {
		return nil, err // not a nil *Grant in an interface
	}
	return g, nil
}

// showFrozen shows it where overrides are, whatever ensemble has the lock.
func (l clientLocker) showFrozen(ctx context.Context, r lock.FrozenRequest) error {
	return l.home.ShowFrozen(ctx, r)
}

// now is what the servers' clock says.
func (l clientLocker) now() time.Time { return l.home.Now() }

// apart says on which ensembles two scopes are; "" if it is the same one.
func (l clientLocker) apart(a, b string) string {
	if l.router == nil {
		return ""
	}
	clientA, prefixA := l.router.Route(a)
	clientB, prefixB := l.router.Route(b)
	if clientA == clientB {
		return ""
	}
	return fmt.Sprintf("%q is on %s, %q on %s", a, ensemble(prefixA), b, ensemble(prefixB))
}

func ensemble(prefix string) string {
	if prefix == "" {
		return "the home ensemble"
	}
	return fmt.Sprintf("the ensemble of the prefix %q", prefix)
}

var (
	_ locker  = clientLocker{}
	_ freezer = clientLocker{}
	_ grant   = (*lock.Grant)(nil)
)
