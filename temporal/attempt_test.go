package temporal

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
)

func TestAttemptYieldsIfAnotherOneFollows(t *testing.T) {
	const delay = 10 * time.Second
	now := time.Now()
	policy := func(attempts int32, never ...string) *sdk.RetryPolicy {
		return &sdk.RetryPolicy{MaximumAttempts: attempts, NonRetryableErrorTypes: never}
	}
	within := func(total time.Duration) activity.Info {
		return activity.Info{RetryPolicy: policy(0), ScheduleToCloseTimeout: total, ScheduledTime: now.Add(-3 * time.Second)}
	}
	for name, c := range map[string]struct {
		busy     Busy
		patience *time.Duration
		info     activity.Info
		want     bool
	}{
		"no limit":                       {info: activity.Info{Attempt: 99, RetryPolicy: policy(0)}, want: true},
		"the last but one":               {info: activity.Info{Attempt: 1, RetryPolicy: policy(2)}, want: true},
		"the last one":                   {info: activity.Info{Attempt: 2, RetryPolicy: policy(2)}},
		"the last one, which has to":     {busy: BusyRetry, info: activity.Info{Attempt: 2, RetryPolicy: policy(2)}},
		"its error is not retried":       {info: activity.Info{RetryPolicy: policy(0, ErrTypeLockBusy)}},
		"another error is not retried":   {info: activity.Info{RetryPolicy: policy(0, "Other")}, want: true},
		"policy unknown":                 {},
		"policy unknown, and it has to":  {busy: BusyRetry, want: true},
		"its patience ends before":       {patience: new(delay), info: activity.Info{RetryPolicy: policy(0)}},
		"its patience ends after that":   {patience: new(2 * delay), info: activity.Info{RetryPolicy: policy(0)}, want: true},
		"its timeout ends before":        {info: within(delay + 3*time.Second)},
		"its timeout ends long after it": {info: within(2 * delay), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			lock := &compiled{Lock: Lock{OnBusy: c.busy}}
			lock.AcquireTimeout = c.patience
			c.info.StartedTime = now
			a := &locked{lock: lock, info: c.info, ctx: t.Context(), pulse: &pulse{}, began: now}
			require.Equal(t, c.want, a.mayYield(ErrTypeLockBusy, delay))
			a.pulse = nil
			require.False(t, a.mayYield(ErrTypeLockBusy, delay), "a local activity")
		})
	}
}

// What is never to be attempted again is not, also if somebody asks for the lock meanwhile.
func TestErrorThatThePolicyDoesNotRetryIsForGood(t *testing.T) {
	a := &locked{info: activity.Info{RetryPolicy: &sdk.RetryPolicy{NonRetryableErrorTypes: []string{"Shipped", "PathError"}}}}
	for _, err := range []error{
		sdk.NewApplicationError("half of it", "Shipped"), &fs.PathError{}, sdk.NewNonRetryableApplicationError("over", "Over", nil),
	} {
		require.True(t, a.isForGood(err), "%v", err)
	}
	require.False(t, a.isForGood(sdk.NewApplicationError("half of it", "Lost")))
	require.False(t, (&locked{}).isForGood(errors.New("over")))
}
