package actor

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Guard runs work under locks; *lockguard.Guard does.
type Guard interface {
	Do(ctx context.Context, requirement lockguard.Requirement, work func(context.Context) error,
		hooks ...lockguard.Hook) error
}

// An Option changes what an actor does.
type Option func(*actor)

// Again makes an actor wait for its lock again after it was preempted, after its
// lease has ended and after a loss, and whenever the lock was not acquired in
// time or ZooKeeper did not answer. It pauses for a second before each request
// but the first.
func Again() Option { return func(a *actor) { a.again = true } }

// WithHooks sets what runs after an interruption, still under the lock. The
// requirement must have a cleanup timeout.
func WithHooks(hooks ...lockguard.Hook) Option { return func(a *actor) { a.hooks = hooks } }

// New returns an actor for the Add of a run.Group. Its execute is Run;
// interrupt ends the context of that, with the error of the actor that ended
// first as the cause, or errStopped when that ended without one. Interrupt does
// not wait; it can be called before execute, which then returns at once.
func New(
	guard Guard, requirement lockguard.Requirement, serve func(ctx context.Context) error, options ...Option,
) (execute func() error, interrupt func(error)) {
	ctx, stop := context.WithCancelCause(context.Background())
	execute = func() error { return Run(ctx, guard, requirement, serve, options...) }
	interrupt = func(err error) {
		if err == nil {
			err = errStopped
		}
		stop(err)
	}
	return execute, interrupt
}

var errStopped = errors.New("actor: another actor of the group has ended")

// Run acquires the lock, calls serve, and releases the lock when serve and the
// hooks have returned. With Again it does so over and over.
//
// A lease timeout that is unset is a year here: after it the service can be preempted
// by any other waiter, whatever its priority.
//
// It ends when ctx ends, when serve returns although its context has not ended,
// and without Again after one call of serve. It returns what lockguard.Guard.Do
// returns: nil only if serve has returned nil by itself; the error of serve; a
// *lockguard.ShutdownError, which wraps the cause of ctx, when that has ended
// while serve ran; or why the lock was not acquired.
func Run(
	ctx context.Context, guard Guard, requirement lockguard.Requirement, serve func(ctx context.Context) error,
	options ...Option,
) error {
	a := actor{guard: guard, requirement: requirement, serve: serve}
	for _, option := range options {
		option(&a)
	}
	if a.requirement.LeaseTimeout == 0 {
		a.requirement.LeaseTimeout = year
	}
	for {
		over, err := a.once(ctx)
		if over || !a.again || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

const year = 365 * 24 * time.Hour

// pause keeps two actors that preempt each other, and one without a connection,
// from retrying as fast as they can.
const pause = time.Second

type actor struct {
	guard       Guard
	requirement lockguard.Requirement
	serve       func(context.Context) error
	hooks       []lockguard.Hook
	again       bool
}

// once serves under one hold. It is over when there is no use in another one.
func (a actor) once(ctx context.Context) (over bool, err error) {
	served, interrupted := false, false
	err = a.guard.Do(ctx, a.requirement, func(ctx context.Context) error {
		served = true
		err := a.serve(ctx)
		interrupted = ctx.Err() != nil
		return err
	}, a.hooks...)
	if served {
		return !interrupted || errors.As(err, new(*lockguard.PanicError)), err
	}
	return !isPassing(err), err
}

// isPassing reports whether a lock that was not acquired may be acquired later.
func isPassing(err error) bool {
	return priority.CauseOf(err).Kind != "" || errors.As(err, new(*lock.UnavailableError))
}
