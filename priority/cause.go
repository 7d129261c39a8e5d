package priority

import (
	"slices"
	"time"
)

// A Cause is an error that says why a hold ends or why a request was not granted. Ask CauseOf for that of an error.
type Cause interface {
	error
	Info() CauseInfo
}

// CauseInfo is what all causes have in common. The zero value is that of no cause.
type CauseInfo struct {
	Kind  Kind
	Scope string // of the lock

	// Of a preemption alone (Kind.IsPreemption); otherwise zero.
	By       string    // who asks: the owner of a request, or the operator
	Priority Level     // of that request; 0 for an operator
	Deadline time.Time // by which work and cleanup must have ended, on the local clock
	Forceful bool      // the lock is taken then
}

// Kind is the kind of a cause. Metrics, traces and logs use it as it is.
type Kind string

// The kinds of causes.
const (
	KindLost Kind = "lost" // the lock is no longer held

	// The holder is asked to release: for an override, after its lease, or for a more important request.
	KindOverridden   Kind = "overridden"
	KindLeaseExpired Kind = "lease_expired"
	KindPreempted    Kind = "preempted"

	// The request was not granted: for an override, because the holder is still cleaning up, because too many wait,
	// because an administrator removed it, or in time.
	KindFrozen         Kind = "frozen"
	KindCleanupPending Kind = "cleanup_pending"
	KindQueueFull      Kind = "queue_full"
	KindEvicted        Kind = "evicted"
	KindTimeout        Kind = "timeout"

	KindShutdown Kind = "shutdown" // the caller's context ended
)

// Kinds returns all kinds, the one that counts most first.
func Kinds() []Kind {
	return slices.Concat([]Kind{KindLost}, preemptions(), refusals(), []Kind{KindShutdown})
}

func preemptions() []Kind { return []Kind{KindOverridden, KindLeaseExpired, KindPreempted} }

func refusals() []Kind {
	return []Kind{KindFrozen, KindCleanupPending, KindQueueFull, KindEvicted, KindTimeout}
}

// IsPreemption reports whether the holder is asked to release the lock.
func (k Kind) IsPreemption() bool { return slices.Contains(preemptions(), k) }

// EndsHold reports whether the holder is asked to release the lock, or has lost it.
func (k Kind) EndsHold() bool { return k == KindLost || k.IsPreemption() }

// IsRefusal reports whether the request was not granted.
func (k Kind) IsRefusal() bool { return slices.Contains(refusals(), k) }

// CauseOf returns the cause that err is or wraps: of several the one whose kind counts most, of two of a kind the
// outer one. Without a cause it returns the zero value.
func CauseOf(err error) CauseInfo { return causeOf(err, Kinds()) }

// PreemptionOf returns the preemption that err is or wraps, also if the lock was lost afterwards. Without one it
// returns the zero value.
func PreemptionOf(err error) CauseInfo { return causeOf(err, preemptions()) }

// RefusalOf returns the refusal that err is or wraps, whatever else it does. Without one it returns the zero value.
func RefusalOf(err error) CauseInfo { return causeOf(err, refusals()) }

// causeOf looks for causes of these kinds, the one that counts most first.
func causeOf(err error, kinds []Kind) (found CauseInfo) {
	rank := len(kinds)
	consider := func(c CauseInfo) {
		if i := slices.Index(kinds[:rank], c.Kind); i >= 0 {
			found, rank = c, i
		}
	}
	if c, ok := err.(Cause); ok { //nolint:errorlint // each error of the tree is looked at by itself
		consider(c.Info())
	}
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() error }:
		consider(causeOf(e.Unwrap(), kinds))
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			consider(causeOf(err, kinds))
		}
	}
	return found
}
