package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Reference names a request, or the grant that it has become, so that another
// process can join its hold or adopt it. It contains no secret and gives no
// right: every client that may write the lock's nodes may use it.
type Reference struct {
	Scope string `json:"scope"`
	Hold  string `json:"hold"`            // Request.Hold
	ID    string `json:"id"`              // of the contender: Grant.ID, or that of the notice Joined
	Token Token  `json:"token,omitempty"` // 0: it was waiting, or not known

	Mode priority.Mode `json:"mode,omitempty"`
}

// check returns what is wrong with a reference to a hold of a scope.
func (r Reference) check(scope string) error {
	bad := func(format string, args ...any) error {
		return &zkclient.RequestError{Field: "reference", Reason: fmt.Sprintf(format, args...)}
	}
	wrong, isWrong := errors.AsType[*zkclient.RequestError](priority.CheckHold(r.Hold))
	switch {
	case r.Scope != scope:
		return bad("is to a hold of %q, not of %q; use the lock of its scope", r.Scope, scope)
	case r.Hold == "":
		return bad("names no hold; let the request that it is to have one (hold)")
	case isWrong:
		return bad("the id of its hold %s", wrong.Reason)
	case !znode.IsGUID(r.ID):
		return bad("%q is not the id of a request", r.ID)
	}
	return nil
}

// Reference names the grant for Join and Adopt. It is of use if the request had a
// Hold. The token is in it as soon as it is known, see Token.
func (g *Grant) Reference() Reference {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Reference{Scope: g.lock.scope, Hold: g.req.Hold, ID: g.guid, Token: g.token, Mode: g.mode}
}

// Terms returns what the lock was granted for: of a grant that has joined or adopted a hold, the terms of the
// hold. The mode is that of now, see Downgrade.
func (g *Grant) Terms() priority.Terms {
	terms := g.req.Terms
	terms.Mode = g.Mode()
	return terms
}

// LeaseDeadline returns when the lease ends, about, on the local clock.
func (g *Grant) LeaseDeadline() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Add(g.leaseTo.Sub(g.s.Now()))
}

// Join makes the caller a companion of a hold (T14): it holds the lock beside
// the members that hold it through the same Request.Hold, also exclusively,
// with the same token. It does not queue. The lock is held until the last
// companion has released it or has gone; each is preempted separately, and
// takeovers evict all of them.
//
// Any living companion will do, the one that ref names or another, as long as the
// token is that of ref, if it says one. Of the request, Owner, Message, Trace,
// Under, Notify, AcquireTimeout (for an answer) and ForCleanup count: all other
// terms are those of the hold, its lease goes on.
//
// While a companion is being preempted, Join returns a *PreemptPendingError,
// unless the request is ForCleanup: then the new grant gets the preemption
// notice at once. Other errors are *NotThereError, *UnavailableError,
// *RequestError, ErrClosed, or the cause of ctx. Whatever the error, the caller
// is no companion later.
func (l *PriorityLock) Join(ctx context.Context, ref Reference, r Request) (*Grant, error) {
	return l.accede(ctx, ref, r, false)
}

// Adopt replaces the request, or its grant, that ref names: one of a process
// that has ended, or that is to be relieved. The token, the lease and the
// preemptions of the hold stay what they are. The replaced one gets the notice
// Lost with LossSuperseded.
//
//   - It holds the lock: T15.
//   - It waits: Adopt waits until it is granted (Queued), and then adopts it at once. The
//     place in the queue is that of the other one, and lives as long as that does.
//   - It has died, and others of its hold have not: the caller becomes a companion of
//     those in its place (T14).
//   - It has died with all other members of its hold, and no request was
//     granted the lock since: the hold is resumed with the token that ref says,
//     0 for a new one, and with the terms of the request (T16). The hold's own
//     LockDelay does not make it wait; it makes all other requests wait.
//     Exclusive holds only.
//
// No other client can adopt the same one after that. If there is nothing to
// adopt, the error is a *NotThereError: the caller has to acquire the lock
// anew. An AcquireTimeout bounds the wait, with a *NotAcquiredError at its end;
// with 0 Adopt does not wait. Other errors are *LostError (adopted, and taken
// over before this process heard of it), *UnavailableError, *RequestError,
// *EmergencyError, ErrClosed, or the cause of ctx. Whatever the error, the
// caller does not hold the lock later; what it had adopted by then is released.
func (l *PriorityLock) Adopt(ctx context.Context, ref Reference, r Request) (*Grant, error) {
	return l.accede(ctx, ref, r, true)
}

func (l *PriorityLock) accede(ctx context.Context, ref Reference, r Request, adopts bool) (*Grant, error) {
	r.Hold = ref.Hold
	if err := errors.Join(ref.check(l.scope), r.complete(l.c)); err != nil {
		return nil, err
	}
	k := &accession{
		a:      &attempt{l: l, req: r, start: time.Now(), notices: newNotices(r.Notify)},
		ref:    ref,
		adopts: adopts,
	}
	return l.call(k.a, nil, k.run).Acquire(ctx)
}
