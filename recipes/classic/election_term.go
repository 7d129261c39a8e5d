package classic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Term is the time in which a candidate leads: until it resigns, or until the
// term is lost. No other candidate's term begins before it has ended, unless
// this process stands still: see Token.
type Term struct {
	b      *ballot
	s      *zkclient.Session
	path   string
	token  lock.Token
	watch  zkclient.Watcher
	ctx    context.Context
	cancel context.CancelCauseFunc
	told   chan struct{} // closed when Notify has heard of the end

	mu    sync.Mutex
	state grantState
	loss  *lock.LostError
}

// Context returns a context that ends with the term. Its cause is then the
// *LostError or ErrResigned; in a term of Run it is the cause of Run's context
// when that has ended first.
func (t *Term) Context() context.Context { return t.ctx }

// Done is closed when the term's context has ended.
func (t *Term) Done() <-chan struct{} { return t.ctx.Done() }

// Err returns nil as long as the term lasts, as far as this process knows; then
// the *LostError or ErrResigned. See Check.
func (t *Term) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case stateLost:
		return t.loss
	case stateReleased:
		return ErrResigned
	case stateHeld:
	}
	return nil
}

// Token returns the fencing token: the zxid in which the candidate's node was
// created. It grows from leader to leader; a term that PolicyStrict has ended
// and that is led again with the same node has the same token, for no other
// candidate has led in between. Give it to whatever the leader writes to.
func (t *Term) Token() lock.Token { return t.token }

// Deadline returns until when the term certainly lasts if ZooKeeper does not
// answer any more, on the local monotonic clock. It moves on with every answer.
func (t *Term) Deadline() time.Time {
	return time.Now().Add(t.s.Deadline().Sub(t.s.Awake()))
}

// Check reports whether the term certainly lasts right now. It sends no request
// to ZooKeeper, and counts time for which the machine was suspended. It returns
// nil, the *LostError or ErrResigned. A term that it finds lost stays lost, and
// Notify is called.
func (t *Term) Check() error {
	t.s.Check((*termTenant)(t))
	return t.Err()
}

// Resign ends the term and takes the candidate out of the line. It returns
// ErrResigned when that was done before, and the *LostError when the term was
// lost, even if only Resign found out.
//
// When ctx ends first, Resign returns an error and goes on in the background
// until the next may lead.
func (t *Term) Resign(ctx context.Context) error {
	if err := t.end(nil); err != nil {
		return err
	}
	_, err := zkclient.Promptly(ctx, t.b.e.c, func() (struct{}, error) { return struct{}{}, t.withdraw() }, nil)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("resignation in election %q has not been confirmed and goes on in the background: %w",
			t.b.e.name, err)
	}
	return err
}

// withdraw deletes the candidate's node, until that is certain.
func (t *Term) withdraw() error {
	unsure := false // an earlier try may have done it
	for {
		err := t.s.Delete(context.Background(), t.path, -1)
		gone, over := errors.Is(err, zkclient.ErrNoNode), errors.Is(err, zkclient.ErrSessionOver)
		switch {
		case err == nil, unsure && (gone || over):
			return nil
		case gone:
			return &lock.LostError{Scope: t.b.e.name, Token: t.token, Reason: lock.LossDeleted}
		case over:
			return &lock.LostError{Scope: t.b.e.name, Token: t.token, Reason: lock.LossSession, Err: err}
		case !errors.Is(err, zkclient.ErrAmbiguous):
			return err
		}
		unsure = true
	}
}

// end makes the term over: lost, or resigned without a loss. It returns why it
// was over before.
func (t *Term) end(loss *lock.LostError) error {
	t.mu.Lock()
	if t.state != stateHeld {
		t.mu.Unlock()
		return t.Err()
	}
	why := ErrResigned
	t.state = stateReleased
	if loss != nil {
		loss.Token = t.token
		t.state, t.loss, why = stateLost, loss, loss
	}
	t.mu.Unlock()
	t.s.Unhold((*termTenant)(t))
	t.s.Unwatch(t.path, &t.watch)
	t.cancel(why)
	if loss != nil || t.b.e.o.TellResignation {
		t.b.notices.SendThen(Dismissed{Term: t, Err: why}, func() { close(t.told) })
	} else {
		close(t.told)
	}
	return nil
}

// drop forgets a term that has not begun.
func (t *Term) drop() {
	t.mu.Lock()
	t.state = stateReleased
	t.mu.Unlock()
	t.s.Unwatch(t.path, &t.watch)
	t.cancel(nil)
}

// giveUp resigns in the background.
func (t *Term) giveUp() {
	if t.end(nil) == nil {
		t.s.Discard(t.path)
	}
}

// kept reports whether the candidate's node has outlived the term: what was lost
// with the connection comes back with it.
func (t *Term) kept() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == stateLost && t.loss.Reason == lock.LossSession && t.b.keeps()
}

// keeps reports whether a candidate that is cut off stays in line.
func (b *ballot) keeps() bool { return !b.alone && b.e.o.Policy == PolicyStrict }

// inspect reads the own node: it may be gone.
func (t *Term) inspect() {
	for t.Err() == nil {
		_, _, err := t.s.Look(t.b.e.c.Closing(), t.path, &t.watch)
		if t.Err() != nil {
			t.s.Unwatch(t.path, &t.watch)
			return
		}
		switch {
		case errors.Is(err, zkclient.ErrNoNode):
			t.lose(&lock.LostError{Scope: t.b.e.name, Reason: lock.LossDeleted})
		case !errors.Is(err, zkclient.ErrAmbiguous):
			return
		}
	}
}

var errStrict = errors.New("the connection was lost, and the policy is strict")

func (t *Term) holding() string { return t.b.e.name }

// A termTenant is a term as its session sees it.
type termTenant Term

func (t *termTenant) Holding() string               { return (*Term)(t).holding() }
func (t *termTenant) Overdue(zkclient.Instant) bool { return (*Term)(t).isStrict() }
func (t *termTenant) AtRisk(time.Duration)          {}
func (t *termTenant) SessionLost(cause error)       { (*Term)(t).sessionLost(cause) }

// isStrict: a strict leader does not lead without a connection.
func (t *Term) isStrict() bool { return t.b.e.o.Policy == PolicyStrict }

func (t *Term) sessionLost(cause error) {
	t.lose(&lock.LostError{Scope: t.b.e.name, Reason: lock.LossSession, Err: cause})
}

func (t *Term) lose(loss *lock.LostError) {
	if loss.Reason == lock.LossSession && t.isStrict() && !t.s.IsOver() {
		loss.Err = errStrict
	}
	if t.end(loss) == nil && loss.Reason == lock.LossSession && !t.b.keeps() {
		t.s.Discard(t.path) // the session may survive; the term does not
	}
}
