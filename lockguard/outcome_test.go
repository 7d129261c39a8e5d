package lockguard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestOutcomeSaysWhyThereIsNoLock(t *testing.T) {
	pending := &lock.CleanupPendingError{}
	for want, errs := range map[Outcome][]error{
		OutcomeCancelled:      {context.Canceled, fmt.Errorf("lock not acquired: %w: %w", errors.New("drain"), context.Canceled)},
		OutcomeTimeout:        {&lock.NotAcquiredError{}, context.DeadlineExceeded},
		OutcomeCleanupPending: {pending, fmt.Errorf("x: %w", pending)},
		OutcomeDenied:         {join(pending, errors.New("no"))},
		OutcomeEvicted:        {&lock.EvictedError{}},
		OutcomeFrozen:         {&FrozenError{Err: context.Canceled}, &FrozenError{}},
		OutcomeLost:           {&LostError{}},
		OutcomePreempted:      {&PreemptedError{}, &LeaseExpiredError{}, &OverriddenError{}},
		OutcomeQueueFull:      {&lock.QueueFullError{}},
		OutcomeUnavailable:    {&lock.UnavailableError{}},
		OutcomeFailed:         {errors.New("x"), nil},
	} {
		require.Contains(t, Outcomes(), want)
		for _, err := range errs {
			require.Equal(t, want, NotAcquired{Err: err}.Outcome(), "%v", err)
		}
	}
}

func TestEndSaysHowTheLockWasGivenUp(t *testing.T) {
	for want, event := range map[End]interface{ End() End }{
		EndReleased: Released{}, EndPreempted: Released{Cause: &PreemptedError{}}, EndLeaseExpired: Released{Cause: &LeaseExpiredError{}},
		EndOverridden: Released{Cause: &OverriddenError{}}, EndShutdown: Released{Cause: &ShutdownError{Err: context.Canceled}},
		EndInterrupted: Released{Cause: errors.New("x")}, EndSessionLost: Lost{}, EndTaken: Lost{Err: &LostError{Reason: lock.LossTaken}},
		EndBroken: Lost{Err: &LostError{Reason: lock.LossBroken}}, EndDeleted: Lost{Err: &LostError{Reason: lock.LossDeleted}},
		EndSuperseded: Released{Cause: &LostError{Reason: lock.LossSuperseded}},
	} {
		require.Equal(t, want, event.End())
		require.Contains(t, Ends(), want)
	}
	require.Len(t, Ends(), 11)
	require.Equal(t, EndOverridden, Lost{Err: &LostError{Reason: lock.LossOverridden}}.End())
}
