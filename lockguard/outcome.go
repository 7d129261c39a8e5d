package lockguard

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An Outcome says in one word how the wait of a request ended, for metrics.
type Outcome string

// The outcomes of a request.
const (
	OutcomeAcquired       Outcome = "acquired"
	OutcomeBypassed       Outcome = "bypassed"        // an override let the work run without the lock
	OutcomeCancelled      Outcome = "cancelled"       // by its caller
	OutcomeCleanupPending Outcome = "cleanup_pending" // a polite request, whose holders did not finish their cleanup
	OutcomeDenied         Outcome = "denied"          // likewise, and the takeover was denied
	OutcomeEvicted        Outcome = "evicted"         // an administrator has removed it
	OutcomeFailed         Outcome = "failed"          // for another reason
	OutcomeFrozen         Outcome = "frozen"          // by an override, for as long as it could wait
	OutcomeLost           Outcome = "lost"            // it was granted, and lost before the work began
	OutcomePreempted      Outcome = "preempted"       // it was granted, and preempted before the work began
	OutcomeQueueFull      Outcome = "queue_full"
	OutcomeTimeout        Outcome = "timeout"
	OutcomeUnavailable    Outcome = "unavailable" // ZooKeeper did not answer
)

// Outcomes returns all there are.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeAcquired, OutcomeBypassed, OutcomeCancelled, OutcomeCleanupPending, OutcomeDenied, OutcomeEvicted,
		OutcomeFailed, OutcomeFrozen, OutcomeLost, OutcomePreempted, OutcomeQueueFull, OutcomeTimeout, OutcomeUnavailable,
	}
}

// Outcome says why the lock was not acquired.
func (e NotAcquired) Outcome() Outcome {
	err, kind := e.Err, priority.CauseOf(e.Err).Kind
	_, decided := errors.AsType[*several](err)
	switch {
	case kind.IsPreemption():
		return OutcomePreempted
	case kind == priority.KindCleanupPending && decided:
		return OutcomeDenied
	case kind == priority.KindLost, kind.IsRefusal():
		return Outcome(kind)
	case errors.Is(err, context.Canceled):
		return OutcomeCancelled
	case errors.As(err, new(*lock.UnavailableError)):
		return OutcomeUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return OutcomeTimeout
	}
	return OutcomeFailed
}

// An End says in one word how a hold ended, for metrics.
type End string

// The ends of a hold. After all of them but the last five the lock was given away by
// its holder.
const (
	EndReleased     End = "released" // the work has returned by itself
	EndPreempted    End = "preempted"
	EndLeaseExpired End = "lease_expired" // its lease was over and another request wanted the lock
	EndOverridden   End = "overridden"    // for an operator's override, given away or taken
	EndShutdown     End = "shutdown"      // its caller ended
	EndInterrupted  End = "interrupted"   // for another reason
	EndSessionLost  End = "session_lost"
	EndTaken        End = "taken" // after the grace
	EndBroken       End = "broken"
	EndDeleted      End = "deleted"
	EndSuperseded   End = "superseded"
)

// Ends returns all there are.
func Ends() []End {
	return []End{
		EndReleased, EndPreempted, EndLeaseExpired, EndOverridden, EndShutdown, EndInterrupted,
		EndSessionLost, EndTaken, EndBroken, EndDeleted, EndSuperseded,
	}
}

// End says why the work was interrupted, if it was.
func (e Released) End() End {
	cause := e.Cause
	lost, isLost := errors.AsType[*LostError](cause)
	kind := priority.CauseOf(cause).Kind
	switch {
	case cause == nil, errors.Is(cause, ErrReleased):
		return EndReleased
	case isLost: // another lock that is held together with this one
		return endOf(lost)
	case kind.IsPreemption():
		return End(kind)
	case errors.As(cause, new(*ShutdownError)):
		return EndShutdown
	}
	return EndInterrupted
}

// End says how the lock was lost.
func (e Lost) End() End { return endOf(e.Err) }

func endOf(lost *LostError) End {
	switch {
	case lost == nil, lost.Reason == lock.LossSession:
		return EndSessionLost
	case slices.Contains(Ends(), End(lost.Reason)):
		return End(lost.Reason)
	}
	return EndInterrupted
}
