package temporal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The types of the *temporal.ApplicationError with which an activity fails for
// the sake of its lock, as ApplicationError.Type returns them and as
// RetryPolicy.NonRetryableErrorTypes wants them. The first five are benign:
// the SDK neither logs them as errors nor counts them as failures.
const (
	// ErrTypeLockBusy: another holder has the lock. The attempt has yielded and
	// another one follows; its place in the queue may be kept.
	ErrTypeLockBusy = "LockBusy"

	// ErrTypeLockPreempted: the attempt was preempted, and released its lock.
	ErrTypeLockPreempted = "LockPreempted"

	// ErrTypeLockLost: the lock was lost while the attempt ran, or the attempt
	// was taken for dead.
	ErrTypeLockLost = "LockLost"

	// ErrTypeLockWaitTimeout: the lock was not granted in time.
	ErrTypeLockWaitTimeout = "LockWaitTimeout"

	// ErrTypeLockHandover: the worker stops, and the next attempt runs on another
	// one.
	ErrTypeLockHandover = "LockHandover"

	// ErrTypeLockUnavailable: ZooKeeper does not answer.
	ErrTypeLockUnavailable = "LockUnavailable"

	// ErrTypeRunTimeout: the activity has run for its StartToCloseTimeout, from
	// the grant on. Without a lock that would be a *temporal.TimeoutError.
	ErrTypeRunTimeout = "RunTimeout"

	// ErrTypeLockConfiguration: the lock as declared cannot be, for this call. It is
	// never retried.
	ErrTypeLockConfiguration = "LockConfiguration"
)

// handoverDelay is as soon as Temporal makes another attempt: 0 would stand
// for the retry policy.
const handoverDelay = time.Millisecond

// failure returns an error that the SDK passes on as it is.
func failure(errorType, message string, cause error, options ...func(*sdk.ApplicationErrorOptions)) error {
	o := sdk.ApplicationErrorOptions{Cause: cause, Category: sdk.ApplicationErrorCategoryBenign}
	for _, option := range options {
		option(&o)
	}
	return sdk.NewApplicationErrorWithOptions(message, errorType, o)
}

func forGood(o *sdk.ApplicationErrorOptions) { o.NonRetryable = true }

func loud(o *sdk.ApplicationErrorOptions) { o.Category = sdk.ApplicationErrorCategoryUnspecified }

func again(after time.Duration) func(*sdk.ApplicationErrorOptions) {
	return func(o *sdk.ApplicationErrorOptions) { o.NextRetryDelay = after }
}

func misdeclared(activityType string, err error) error {
	return failure(ErrTypeLockConfiguration, "the lock of activity "+activityType+" cannot be", err, forGood, loud)
}

// errRunTimeout ends the work at its StartToCloseTimeout, counted from the
// grant on.
var errRunTimeout = fmt.Errorf("the activity has run for as long as its start-to-close timeout allows: %w",
	context.DeadlineExceeded)

// outcome is what Temporal hears of work that ran under the lock. cause is why
// the context of the work has ended; the hooks have returned.
func (a *locked) outcome(result any, err, cause, release error) (any, error) {
	if release != nil {
		a.host.plugin.logger.Warn("lock was not released in good order", "activity_id", a.info.ActivityID,
			"scope", a.requirements[0].Scope, "error", release)
	}
	switch {
	case err == nil, err == activity.ErrResultPending, errors.Is(cause, lockguard.ErrReleased): //nolint:errorlint // the SDK compares it so
		return result, err
	case a.isForGood(err):
		return result, err
	case errors.As(cause, new(*lockguard.ShutdownError)):
		return result, a.shutDown(cause, err)
	case errors.As(cause, new(*lockguard.LostError)):
		return nil, a.failure(ErrTypeLockLost, "was lost", also(cause, err), again(a.lock.retryDelay(0)))
	}
	switch a.lock.OnPreempted {
	case PreemptedCooperate:
		return result, err
	case PreemptedFail:
		return nil, a.failure(ErrTypeLockPreempted, "was asked for", also(cause, err), forGood)
	default:
		return nil, a.failure(ErrTypeLockPreempted, "was asked for", also(cause, err), again(a.lock.retryDelay(0)))
	}
}

// shutDown is what Temporal hears when the context of the attempt has ended, and
// err came of it.
func (a *locked) shutDown(cause, err error) error {
	superseded, isSuperseded := errors.AsType[*SupersededError](cause)
	switch {
	case sdk.IsCanceledError(cause):
		return a.canceled(err)
	case isSuperseded:
		return a.failure(ErrTypeLockLost, "was given back", superseded)
	case errors.Is(cause, worker.ErrWorkerShutdown):
		return a.failure(ErrTypeLockHandover, "was given back", also(worker.ErrWorkerShutdown, err), again(handoverDelay))
	case errors.Is(cause, context.DeadlineExceeded) && isEnd(err):
		// the server takes no timeout from a worker
		return a.failure(ErrTypeRunTimeout, "was given back", errRunTimeout, loud)
	}
	return err
}

// canceled returns err when the server has asked for the cancellation. The SDK
// takes it for one only if it has heard so from the server itself.
func (a *locked) canceled(err error) error {
	if a.pulse != nil && !sdk.IsCanceledError(context.Cause(a.outer)) {
		a.pulse.hearIt()
	}
	if isEnd(err) && !errors.Is(err, context.Canceled) && !sdk.IsCanceledError(err) {
		return fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return err
}

// refused is what Temporal hears of an attempt that did not get its lock.
func (a *locked) refused(err error) error {
	var superseded *SupersededError
	soon := again(a.lock.retryDelay(a.slip.Yields))
	switch {
	case errors.As(err, new(*sdk.ApplicationError)):
		return err
	case errors.As(err, &superseded):
		return a.failure(ErrTypeLockLost, "was not acquired", superseded)
	case errors.Is(err, worker.ErrWorkerShutdown):
		return a.failure(ErrTypeLockHandover, "was not acquired", worker.ErrWorkerShutdown, again(handoverDelay))
	case sdk.IsCanceledError(err):
		return a.canceled(sdk.NewCanceledError())
	case a.outer.Err() != nil, isGone(err), errors.Is(err, activity.ErrActivityPaused),
		errors.Is(err, activity.ErrActivityReset):
		return err // the server ignores it
	case errors.As(err, new(*lockguard.RequestError)), errors.As(err, new(*lockguard.UpgradeError)):
		return misdeclared(a.info.ActivityType.Name, err)
	case errors.As(err, new(*lock.UnavailableError)):
		return a.failure(ErrTypeLockUnavailable, "was not acquired", err, loud)
	case errors.As(err, new(*lock.NotAcquiredError)) && !a.isTry():
		return a.failure(ErrTypeLockWaitTimeout, "was not acquired", err, forGood)
	}
	return a.failure(ErrTypeLockBusy, "was not acquired", err, soon)
}

func (a *locked) failure(errorType, what string, cause error, options ...func(*sdk.ApplicationErrorOptions)) error {
	return failure(errorType,
		fmt.Sprintf("lock %q of activity %s %s", a.requirements[0].Scope, a.info.ActivityType.Name, what), cause, options...)
}

// also adds what the activity says to why it has ended, unless that is the same.
func also(cause, err error) error {
	if err == nil || isEnd(err) || errors.Is(err, cause) || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w; the activity says: %w", cause, err)
}

// isEnd reports whether err says no more than that a context has ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || sdk.IsCanceledError(err) ||
		errors.As(err, new(*lockguard.ShutdownError))
}

// isForGood reports whether err says that another attempt makes no sense, by itself
// or by the retry policy.
func (a *locked) isForGood(err error) bool {
	if e, ok := errors.AsType[*sdk.ApplicationError](err); ok && e.NonRetryable() {
		return true
	}
	policy := a.info.RetryPolicy
	return policy != nil && slices.Contains(policy.NonRetryableErrorTypes, typeOf(err))
}

// typeOf is what Temporal takes for the type of err.
func typeOf(err error) string {
	if e, ok := err.(*sdk.ApplicationError); ok { //nolint:errorlint // the SDK does not unwrap it
		return e.Type()
	}
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}
