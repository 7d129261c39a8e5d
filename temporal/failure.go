package temporal

import (
	"time"

	sdk "go.temporal.io/sdk/temporal"
)

// The types of the *temporal.ApplicationError with which an activity fails for
// the sake of its lock, as ApplicationError.Type returns them and as
// RetryPolicy.NonRetryableErrorTypes wants them. All but the last two are benign:
// the SDK neither logs them as errors nor counts them as failures.
const (
	// ErrTypeLockBusy: somebody else has the lock. The attempt has yielded and
	// another one follows; its place in the queue may be kept.
	ErrTypeLockBusy = "LockBusy"

	// ErrTypeLockPreempted: the attempt was asked to give its lock away, and did.
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

	// ErrTypeLockDeclaration: the lock as declared cannot be, for this call. It is
	// never retried.
	ErrTypeLockDeclaration = "LockDeclaration"
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
	return failure(ErrTypeLockDeclaration, "the lock of activity "+activityType+" cannot be", err, forGood, loud)
}
