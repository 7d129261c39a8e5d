package lockguard

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A locker grants locks: what a Guard needs of a *lock.Client.
type locker interface {
	acquire(ctx context.Context, scope string, request lock.Request) (grant, error)

	// join and adopt are about the hold that ref names.
	join(ctx context.Context, ref Reference, request lock.Request) (grant, error)
	adopt(ctx context.Context, ref Reference, request lock.Request) (grant, error)
}

// A grant is what a Guard needs of a *lock.Grant.
type grant interface {
	// ID returns under what the grant stands in ZooKeeper.
	ID() string

	// Reference names the grant for others.
	Reference() Reference

	// Terms, Mode and LeaseDeadline say for what, and until when, a grant has joined
	// or adopted a hold.
	Terms() priority.Terms
	Mode() priority.Mode
	LeaseDeadline() time.Time

	// Token returns the fencing token, waiting for it if it has to be read.
	Token(ctx context.Context) (lock.Token, error)

	// Deadline returns until when the lock is certainly held if ZooKeeper does
	// not answer any more.
	Deadline() time.Time

	// Check returns the *LostError when the lock is not certainly held any
	// more, whether that was noticed before or not.
	Check() error

	// Extend starts a new lease.
	Extend(ctx context.Context, lease time.Duration) error

	// Protect starts a minimum runtime.
	Protect(ctx context.Context, least time.Duration) error

	// Downgrade makes an exclusive grant a shared one.
	Downgrade(ctx context.Context) error

	// Release gives the lock away. When ctx ends before ZooKeeper has
	// confirmed that, it is tried on in the background.
	Release(ctx context.Context) error
}
