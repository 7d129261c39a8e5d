package temporal

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// DefaultHeartbeatTimeout is how soon Temporal knows that the worker is gone that
// keeps a lock for a workflow.
const DefaultHeartbeatTimeout = 5 * time.Second

// DefaultMaxHold is how long a lock is kept for a workflow at most.
const DefaultMaxHold = 24 * time.Hour

// WithLock acquires a lock for a workflow, runs body under it, and releases it.
// Body may execute any number of activities, one after the other or at once: the
// lock is held between them as well, while no worker is busy with it.
//
// Activities that are executed with the context of body, or one that derives from
// it, are in scope, local ones too: each runs under the lock itself, knows its
// token (lockguard.FromContext), and has its own context ended within milliseconds
// when the lock is preempted. They are waited for when they are cancelled.
// What body starts in another way, such as child workflows, is not in scope.
//
// While the request waits, and while the lock is held, a worker of the task queue
// keeps it, in an activity that takes up no slot. When that worker dies or stops,
// another one takes the lock over, with the same token. See KeeperOptions.
//
// Body is interrupted when the lock is preempted, and when
// the lock is lost: its context is cancelled, and WorkflowHold.Interrupted says
// why. A body that returns nil all the same has completed, unless the lock was
// lost. Otherwise the hook of OnPreempt cleans up, under the lock, and then
// WithLock returns an *ApplicationError of the type ErrTypeLockPreempted or
// ErrTypeLockLost, which PreemptionOf understands.
//
// When the workflow is cancelled, body is as well, and the hook runs the same. The
// error is what body has made of the cancellation.
//
// If the lock is not acquired, body is not run, and the error is an
// *ApplicationError of the type ErrTypeLockWaitTimeout, ErrTypeLockBusy (its
// holders clean up, and the request is polite), ErrTypeLockPreempted (preempted
// before body has begun), or ErrTypeLockConfiguration; or the workflow was
// cancelled.
//
// WithLock can be nested, also for a lock that the context is under already, as a
// workflow is whose Schedule has declared it: body runs under that one then, with
// its token and its terms. A hook has no more time than the outer CleanupTimeout; a
// shared lock does not become exclusive. What interrupts an outer lock interrupts all
// that is in it: the inner hooks run first, under what is still held.
//
// The lock is given away before WithLock returns, and at the latest when the
// workflow is closed, of whatever kind that end is. Before the workflow continues
// as new it is given away as well, unless WorkflowHold.ContinueAsNew keeps it.
//
// The Plugin has to be installed in the workers of the workflow and of its
// activities. All that WithLock does is in the history: five events, two more for
// the release, and another five if the workflow goes on after it.
func WithLock(
	ctx workflow.Context, requirement lockguard.Requirement, body func(ctx workflow.Context, hold WorkflowHold) error,
	options ...WithLockOption,
) error {
	o := lockOptions{heartbeat: DefaultHeartbeatTimeout, maxHold: DefaultMaxHold}
	problems := []error{requirement.Validate()}
	for _, option := range options {
		problems = append(problems, option(&o))
	}
	switch {
	case body == nil:
		problems = append(problems,
			&lockguard.RequestError{Field: "body", Reason: "is nil; give the function that needs the lock"})
	case o.hook != nil && requirement.CleanupTimeout == 0:
		problems = append(problems, &lockguard.RequestError{
			Field:  "cleanup_timeout",
			Reason: "is not set, so the hook of OnPreempt would have no time to run; write how long it needs",
		})
	case requirement.Hold != "":
		problems = append(problems,
			&lockguard.RequestError{Field: "hold", Reason: "is set by WithLock itself; leave it out"})
	}
	if _, ok := runOf(ctx); !ok {
		problems = append(problems, errors.New("the plugin is not installed in this worker; "+
			"add the one of NewPlugin to worker.Options.Plugins or client.Options.Plugins"))
	}
	if err := errors.Join(problems...); err != nil {
		return failure(ErrTypeLockConfiguration, fmt.Sprintf("lock %q cannot be acquired", requirement.Scope),
			err, forGood, loud)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s, ok := around(ctx, requirement.Scope); ok {
		return s.hold.nest(ctx, requirement, o, body)
	}
	h := newWorkflowHold(ctx, requirement, o)
	return h.run(body)
}

// A WithLockOption changes a WithLock.
type WithLockOption func(*lockOptions) error

type lockOptions struct {
	hook           func(ctx workflow.Context, p Preemption) error
	again          bool
	releaseOnClose bool
	heartbeat      time.Duration
	maxHold        time.Duration
	taskQueue      string
}

// OnPreempt sets what cleans up after body was interrupted and has
// returned an error: because the lock was preempted, because the workflow
// was cancelled, or because the lock was lost.
//
// Its context does not end with that of the workflow. Unless the lock is lost,
// activities are in scope, and those that set no ScheduleToCloseTimeout have what
// is left of the grace, but a second at least. The lock stays until the hook has
// returned, unless somebody takes it: then the context is cancelled.
//
// It needs a cleanup timeout in the requirement.
func OnPreempt(hook func(ctx workflow.Context, p Preemption) error) WithLockOption {
	return func(o *lockOptions) error {
		switch {
		case hook == nil:
			return errors.New("OnPreempt: the hook is nil; leave the option out")
		case o.hook != nil:
			return errors.New("OnPreempt: there is a hook already; do all in one")
		}
		o.hook = hook
		return nil
	}
}

// AgainAfterLoss has a lock that was lost acquired anew, and then body run again,
// from its beginning, under another token. The hook of OnPreempt runs in between,
// without the lock. Without this option WithLock fails with ErrTypeLockLost.
func AgainAfterLoss() WithLockOption {
	return func(o *lockOptions) error {
		o.again = true
		return nil
	}
}

// ReleaseOnClose keeps the lock until the workflow is closed, once body has
// returned without being interrupted. That saves the events of the release. It
// lasts up to a third of the heartbeat timeout until the lock is free. It is for
// workflows that end with body.
func ReleaseOnClose() WithLockOption {
	return func(o *lockOptions) error {
		o.releaseOnClose = true
		return nil
	}
}

// KeeperOptions say how the worker is watched that keeps the lock.
type KeeperOptions struct {
	// HeartbeatTimeout is how soon Temporal knows that the worker is gone. For the
	// lock never to be free while another worker takes it over, the session timeout
	// of ZooKeeper has to be at least 1.5 times (HeartbeatTimeout + 3s): 12s for
	// the default. At least a second. Defaults to DefaultHeartbeatTimeout.
	HeartbeatTimeout time.Duration

	// MaxHold bounds the hold, which is then lost. It is for workflows that hang,
	// or were closed while their worker cannot hear of it. Defaults to
	// DefaultMaxHold.
	MaxHold time.Duration

	// TaskQueue is that of the workers that may keep the lock. Defaults to the
	// one of the workflow.
	TaskQueue string
}

// KeptBy sets how the worker is watched that keeps the lock.
func KeptBy(k KeeperOptions) WithLockOption {
	return func(o *lockOptions) error {
		var problems []error
		switch {
		case k.HeartbeatTimeout == 0:
		case k.HeartbeatTimeout < time.Second:
			problems = append(problems, &lockguard.RequestError{
				Field:  "heartbeat_timeout",
				Reason: fmt.Sprintf("%s is shorter than a second; write 1s or more", k.HeartbeatTimeout),
			})
		default:
			o.heartbeat = k.HeartbeatTimeout
		}
		switch {
		case k.MaxHold < 0:
			problems = append(problems, &lockguard.RequestError{Field: "max_hold", Reason: fmt.Sprintf(
				"%s is negative; write how long the lock may be held, or leave it out for %s", k.MaxHold, DefaultMaxHold)})
		case k.MaxHold > 0:
			o.maxHold = k.MaxHold
		}
		o.taskQueue = k.TaskQueue
		return errors.Join(problems...)
	}
}
