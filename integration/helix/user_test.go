package helix

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A change makes a requirement another one than "exclusive, priority 0, polite,
// wait as long as it takes, nothing to clean up".
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

func message(text string) change {
	return func(r *lockguard.Requirement) { r.Message = text }
}

func waiting(d time.Duration) change {
	return func(r *lockguard.Requirement) { r.WaitingTimeout = &d }
}

func within(d time.Duration) change {
	return func(r *lockguard.Requirement) { r.AcquireTimeout = &d }
}

// try asks for what needs nobody's consent.
var try = within(0)

func forceful(r *lockguard.Requirement) { r.Forceful = true }

func requirement(changes ...change) lockguard.Requirement {
	r := lockguard.Requirement{Scope: scope}
	for _, f := range changes {
		f(&r)
	}
	return r
}

// guard returns a guard whose events are written down.
func (h *house) guard(c *recipes.Client, owner string) (*lockguard.Guard, *told) {
	h.t.Helper()
	events := &told{who: owner, story: h.story, news: make(chan struct{})}
	g, err := lockguard.New(c, lockguard.WithOwner(owner), lockguard.WithObserver(events.note))
	require.NoError(h.t, err)
	return g, events
}

// A user is one request under a guard of its own, and then its Hold; or, made
// by work, one piece of work under the lock.
type user struct {
	h       *house
	owner   string
	told    *told
	cancel  context.CancelCauseFunc // ends the context that it asked with
	finish  func()                  // of work: it is done
	granted chan struct{}           // closed when the lock is held
	done    chan struct{}           // closed when Acquire or Do has returned
	hold    *lockguard.Hold         // set when granted
	err     error                   // set when done
}

func (h *house) newUser(c *recipes.Client, owner string) (*user, *lockguard.Guard, context.Context) {
	guard, events := h.guard(c, owner)
	ctx, cancel := context.WithCancelCause(context.Background())
	u := &user{h: h, owner: owner, told: events, cancel: cancel, granted: make(chan struct{}), done: make(chan struct{})}
	return u, guard, ctx
}

// ask requests the lock in the background. What is still held at the end of the
// test is released then.
func (h *house) ask(c *recipes.Client, owner string, changes ...change) *user {
	h.t.Helper()
	u, guard, ctx := h.newUser(c, owner)
	go func() {
		defer close(u.done)
		if u.hold, u.err = guard.Acquire(ctx, requirement(changes...)); u.err == nil {
			close(u.granted)
		}
	}()
	h.t.Cleanup(func() {
		u.cancel(context.Canceled)
		<-u.done
		if u.hold != nil {
			_ = u.hold.Release(context.Background())
		}
	})
	return u
}

// hold is ask for what is granted at once.
func (h *house) hold(c *recipes.Client, owner string, changes ...change) *user {
	h.t.Helper()
	u := h.ask(c, owner, changes...)
	u.holds()
	return u
}

// work runs work under the lock until its context ends or it is told to finish,
// and then hooks if there are any. It returns when the work runs.
func (h *house) work(c *recipes.Client, owner string, hooks []lockguard.Hook, changes ...change) *user {
	h.t.Helper()
	u, guard, ctx := h.newUser(c, owner)
	finished := make(chan struct{})
	u.finish = sync.OnceFunc(func() { close(finished) })
	go func() {
		defer close(u.done)
		u.err = guard.Do(ctx, requirement(changes...), func(ctx context.Context) error {
			u.hold, _ = lockguard.FromContext(ctx)
			close(u.granted)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-finished:
				return nil
			}
		}, hooks...)
	}()
	h.t.Cleanup(func() {
		u.cancel(context.Canceled)
		<-u.done
	})
	u.holds()
	return u
}

// holds waits for the grant.
func (u *user) holds() *lockguard.Hold {
	u.h.t.Helper()
	select {
	case <-u.granted:
	case <-u.done:
		if u.hold == nil {
			require.NoError(u.h.t, u.err, "%s was not granted the lock", u.owner)
		}
	case <-time.After(soon):
		require.FailNow(u.h.t, u.owner+" has not been granted the lock")
	}
	return u.hold
}

// refused waits for the error with which its request fails.
func (u *user) refused() error {
	u.h.t.Helper()
	err := u.ended()
	require.Error(u.h.t, err, "%s was granted the lock", u.owner)
	require.Nil(u.h.t, u.hold, "%s got a Hold and an error", u.owner)
	return err
}

// ended waits until Acquire or Do has returned.
func (u *user) ended() error {
	u.h.t.Helper()
	receive(u.h.t, u.done, u.owner+" has not come to an end")
	return u.err
}

// waits fails the test unless the request still waits.
func (u *user) waits() {
	u.h.t.Helper()
	select {
	case <-u.done:
		require.FailNow(u.h.t, u.owner+" does not wait any more", "error: %v", u.err)
	case <-u.granted:
		require.FailNow(u.h.t, u.owner+" does not wait any more: it was granted the lock")
	default:
	}
}

func (u *user) release() {
	u.h.t.Helper()
	require.NoError(u.h.t, u.holds().Release(context.Background()), "%s's release", u.owner)
}

func (u *user) token() lockguard.Token {
	u.h.t.Helper()
	return u.holds().Token()
}

// interrupted waits until the context of the work has ended, and returns why.
func (u *user) interrupted() error {
	u.h.t.Helper()
	ctx := u.holds().Context()
	receive(u.h.t, ctx.Done(), u.owner+" has not been interrupted")
	return context.Cause(ctx)
}

// loses waits until the lock is no longer held.
func (u *user) loses() lockguard.Lost {
	u.h.t.Helper()
	receive(u.h.t, u.holds().Lost(), u.owner+" has not been told that it has lost the lock")
	require.Error(u.h.t, u.hold.Context().Err(), "%s's loss showed before its context had ended", u.owner)
	return await[lockguard.Lost](u.h.t, u.told)
}

// undisturbed checks that a holder has heard of nothing.
func (u *user) undisturbed() {
	u.h.t.Helper()
	require.NoError(u.h.t, context.Cause(u.holds().Context()), "%s was interrupted", u.owner)
	require.Zero(u.h.t, count[lockguard.PreemptRequested](u.told), "%s was asked to go", u.owner)
	require.Empty(u.h.t, u.h.state().Holders[0].PreemptedBy, "%s is asked to go", u.owner)
}

// past returns a Hold of somebody who had the lock and released it.
func (h *house) past(c *recipes.Client, owner string, changes ...change) *lockguard.Hold {
	h.t.Helper()
	u := h.hold(c, owner, changes...)
	u.release()
	return u.hold
}

// A chore is a cleanup hook that takes until it is told to end, whatever time
// it was given, or until the lock is lost.
type chore struct {
	test  context.Context
	begun chan struct{} // closed when the hook runs
	end   func()
	over  chan struct{}
	runs  atomic.Int32
	cause error // with which the context of the hook had ended when it returned
}

func newChore(t testing.TB) *chore {
	t.Helper()
	c := &chore{test: t.Context(), begun: make(chan struct{}), over: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.over) })
	return c
}

// begins waits until the hook runs.
func (c *chore) begins(t testing.TB) {
	t.Helper()
	receive(t, c.begun, "the cleanup has not begun")
}

func (c *chore) hook(ctx context.Context) error {
	if c.runs.Add(1) == 1 {
		close(c.begun)
	}
	hold, _ := lockguard.FromContext(ctx)
	select {
	case <-c.over:
	case <-hold.Lost():
	case <-c.test.Done():
	}
	c.cause = context.Cause(ctx)
	return nil
}
