package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/call"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// A PriorityLock is the lock of one scope. The more important request goes
// first, and may preempt the holder; inside one priority, first come first
// served. Exclusive holders have it alone, shared ones together; a shared
// request does not pass an exclusive one that waits, unless it is more
// important. It holds no state of its own: any number of them may stand for one
// scope.
//
// In ZooKeeper a lock is one persistent node, whose data G says who was
// granted, with one ephemeral sequential child for each request. A request
// holds the lock if and only if G names it and its node exists. Comments name
// the transactions T1 to T17 of docs/protocol.md.
type PriorityLock struct {
	c     *Client
	cache *lockCache
	scope string
	path  string
}

// PriorityLock returns the lock of a scope: a path such as
// "cluster/orders/resource/users" that says what is protected. Scopes do not
// contain each other. It returns a *RequestError for a scope that cannot be
// stored, see EscapeScope.
func (c *Client) PriorityLock(scope string) (*PriorityLock, error) {
	name, err := znode.EscapeScope(scope)
	if err != nil {
		return nil, err
	}
	return newPriorityLock(c, scope, lockPath(c.Root(), name)), nil
}

func newPriorityLock(c *Client, scope, path string) *PriorityLock {
	return &PriorityLock{c: c, cache: cacheOf(c), scope: scope, path: path}
}

// Scope returns what the lock protects.
func (l *PriorityLock) Scope() string { return l.scope }

// errCrowded: another request is there, so the request has to queue.
var errCrowded = errors.New("another request is at the lock")

// Acquire waits for the lock and returns the grant of it, which must be
// released. When it returns an error, the request is gone from ZooKeeper, or
// will be with its session, and is never granted later:
//
//   - *NotAcquiredError: the acquire timeout is over
//   - *CleanupPendingError: the waiting timeout of a polite preemptor is over
//   - *QueueFullError: too many stand in the queue, see Config.QueueLimit
//   - *EvictedError: an administrator deleted the request
//   - *LostError: granted, and taken over before this process heard of it
//   - *UnavailableError: ZooKeeper does not answer
//   - *RequestError: the request can never work, or its Terms cannot
//   - *EmergencyError: it is at priority.Emergency, and no override that is in force says so
//   - one that wraps Terms.Withdraw, or what Request.Authorize has returned
//   - ErrClosed: the client is closed
//   - else the cause of ctx
//
// A request whose session ends while it waits queues again, see Requeued.
func (l *PriorityLock) Acquire(ctx context.Context, r Request) (*Grant, error) {
	if err := r.complete(l.c); err != nil {
		return nil, err
	}
	a := &attempt{l: l, req: r, start: time.Now(), notices: newNotices(r.Notify)}
	open, run := a.open, a.run
	if l.c.Config().LocalQueue > 0 && !a.try() {
		open, run = a.openInLine, a.runInLine
	}
	return l.call(a, open, run).Acquire(ctx)
}

// call is a's call. It may be opened without a goroutine, if open is not nil.
func (l *PriorityLock) call(
	a *attempt, open func(context.Context) (*Grant, bool), run func(context.Context) (*Grant, error),
) call.Call[*Grant] {
	return call.Call[*Grant]{
		Client: l.c.Client, Scope: l.scope, Timeout: a.req.AcquireTimeout, Open: open, Run: run, Notices: a.notices,
		Late: notAcquired, GiveBack: giveBack,
	}
}

func notAcquired(scope string, waited time.Duration, unavailable error) error {
	return &NotAcquiredError{Scope: scope, Waited: waited, Err: unavailable}
}

// giveBack releases what was granted to a call that had left.
func giveBack(g *Grant) {
	// It has to have a token, to be handed on.
	if _, err := g.Token(context.Background()); err == nil {
		_ = g.Release(context.Background())
	}
}
