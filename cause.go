package lockkeeper

import (
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The causes with which the context of a Hold ends (context.Cause). The error of
// Guard.Do wraps them. The lock is still held, except after a LostError.
type (
	// PreemptedError: a request of higher priority wants the lock.
	PreemptedError = lockguard.PreemptedError

	// LeaseExpiredError: the lease is over, and another request wants the lock.
	LeaseExpiredError = lockguard.LeaseExpiredError

	// OverriddenError: an operator's override takes the lock.
	OverriddenError = lockguard.OverriddenError

	// ShutdownError: the context of the caller has ended.
	ShutdownError = lockguard.ShutdownError

	// LostError: the lock is no longer held.
	LostError = lockguard.LostError
)

// The errors of a request that was not granted. It is never granted later.
type (
	// NotAcquiredError: the acquire timeout is over.
	NotAcquiredError = lock.NotAcquiredError

	// CleanupPendingError: the request is polite, its waiting timeout is over, and the
	// holder still cleans up.
	CleanupPendingError = lock.CleanupPendingError

	// QueueFullError: too many requests wait.
	QueueFullError = lock.QueueFullError

	// EvictedError: an administrator has removed the request from the queue.
	EvictedError = lock.EvictedError

	// FrozenError: an operator's override keeps the request from being granted.
	FrozenError = lockguard.FrozenError

	// UnavailableError: ZooKeeper does not answer.
	UnavailableError = lock.UnavailableError

	// UpgradeError: the work holds the lock shared, and asks for it exclusively.
	UpgradeError = lockguard.UpgradeError

	// RequestError: one field of a Requirement, a Job or a Config is wrong.
	RequestError = lockguard.RequestError

	// RetryError: the limits of a Retry are reached.
	RetryError = lockguard.RetryError
)

// PanicError is what a panic in work or in a hook becomes.
type PanicError = lockguard.PanicError

var (
	// ErrReleased is returned by a Hold that was released before.
	ErrReleased = lockguard.ErrReleased

	// ErrStopped is for work to wrap: the hooks run then, as after an interruption.
	ErrStopped = lockguard.ErrStopped
)

// CauseInfo is what all causes and refusals have in common: kind, scope, and of a
// preemption its owner, priority and deadline.
type CauseInfo = priority.CauseInfo

// CauseOf returns what err says about a lock, whatever it wraps. The zero value: it
// says nothing about one.
func CauseOf(err error) CauseInfo { return priority.CauseOf(err) }

// A Kind is the kind of a cause: for a switch, for metrics and for logs.
type Kind = priority.Kind

// The kinds of causes.
const (
	KindLost           = priority.KindLost
	KindOverridden     = priority.KindOverridden
	KindLeaseExpired   = priority.KindLeaseExpired
	KindPreempted      = priority.KindPreempted
	KindFrozen         = priority.KindFrozen
	KindCleanupPending = priority.KindCleanupPending
	KindQueueFull      = priority.KindQueueFull
	KindEvicted        = priority.KindEvicted
	KindTimeout        = priority.KindTimeout
	KindShutdown       = priority.KindShutdown
)
