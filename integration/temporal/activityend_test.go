package temporal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// What is never to be attempted again is not, also if somebody asks for the lock
// meanwhile.
func TestErrorThatThePolicyDoesNotRetryIsNotRetriedAfterAPreemption(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	began := make(chan struct{}, 10)
	var attempts atomic.Int32
	lock := temporal.Lock{Requirement: requirement()}
	lock.CleanupTimeout = 10 * time.Second
	f.worker(t, lock, map[string]any{"work": func(ctx context.Context) error {
		if attempts.Add(1) > 1 {
			return nil
		}
		began <- struct{}{}
		<-ctx.Done()
		return sdk.NewApplicationError("half of it was shipped", "Shipped")
	}})
	run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.RetryPolicy.NonRetryableErrorTypes = []string{"Shipped"} }))
	receive(t, began, "the work")

	require.NoError(t, f.guard(t).Do(soon(t), lockguard.Requirement{Scope: scope, Priority: 7}, func(context.Context) error { return nil }))

	require.Equal(t, "Shipped", errorType(t, run.Get(soon(t), nil)))
	require.EqualValues(t, 1, attempts.Load())
	f.isFree(t)
}

func TestProgressSurvivesAPanic(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) (string, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			activity.RecordHeartbeat(ctx, "page 7")
			panic("page 8")
		}
		var page string
		err := activity.GetHeartbeatDetails(ctx, &page)
		return page, err
	}})
	run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.RetryPolicy.MaximumAttempts = 2 }))
	page, err := result[string](t, run)
	require.NoError(t, err)
	require.Equal(t, "page 7", page)
	f.isFree(t)
}

func TestActivityThatIsCompletedLaterGivesItsLockBackAtOnce(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	tokens := make(chan []byte, 10)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) (string, error) {
		tokens <- activity.GetInfo(ctx).TaskToken
		return "", activity.ErrResultPending
	}})

	// given one that has returned
	run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = time.Minute }))
	token := receive(t, tokens, "the work")
	f.isFree(t)

	// when somebody completes it
	require.NoError(t, f.client.CompleteActivity(t.Context(), token, "done", nil))

	// then
	text, err := result[string](t, run)
	require.NoError(t, err)
	require.Equal(t, "done", text)

	// but one that has no heartbeat timeout of its own is over when that of the plugin is
	run = f.start(t, "work", workflow.ActivityOptions{StartToCloseTimeout: time.Hour, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1}})
	receive(t, tokens, "the work")
	require.ErrorContains(t, run.Get(soon(t), nil), "Heartbeat")
}
