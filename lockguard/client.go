package lockguard

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// New returns a Guard that takes its locks through client. The client is the
// caller's to close, after all work has ended.
func New(client *recipes.Client, options ...Option) (*Guard, error) {
	if client == nil {
		return nil, errors.New("lockguard: New: the client is nil; make one with recipes.NewClient")
	}
	return newGuard(clientLocker{client}, options...)
}

// clientLocker is the locker that a real Guard has.
type clientLocker struct{ client *recipes.Client }

func (l clientLocker) acquire(ctx context.Context, scope string, request recipes.Request) (grant, error) {
	lock, err := l.client.PriorityLock(scope)
	if err != nil {
		return nil, err
	}
	g, err := lock.Acquire(ctx, request)
	if err != nil {
		return nil, err // not a nil *Grant in an interface
	}
	return g, nil
}

func (l clientLocker) join(ctx context.Context, ref Reference, request recipes.Request) (grant, error) {
	return l.accede(ctx, ref, request, (*recipes.PriorityLock).Join)
}

func (l clientLocker) adopt(ctx context.Context, ref Reference, request recipes.Request) (grant, error) {
	return l.accede(ctx, ref, request, (*recipes.PriorityLock).Adopt)
}

func (l clientLocker) accede(ctx context.Context, ref Reference, request recipes.Request,
	how func(*recipes.PriorityLock, context.Context, Reference, recipes.Request) (*recipes.Grant, error),
) (grant, error) {
	lock, err := l.client.PriorityLock(ref.Scope)
	if err != nil {
		return nil, err
	}
	g, err := how(lock, ctx, ref, request)
	if err != nil {
		return nil, err // not a nil *Grant in an interface
	}
	return g, nil
}

// now is what the servers' clock says.
func (l clientLocker) now() time.Time { return l.client.Now() }

var (
	_ locker = clientLocker{}
	_ grant  = (*recipes.Grant)(nil)
)
