//go:build temporalnext

package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// What only servers can do that are newer than the one of all other tests. See
// `make test-temporal-next`.

func TestActivityOfNoWorkflowRunsUnderItsLock(t *testing.T) {
	// given
	f := newFarm(t)
	release := f.hold(t)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) (string, error) {
		hold, _ := lockguard.FromContext(ctx)
		return hold.Info().Requirement.Scope, nil
	}})

	// when
	handle, err := f.client.ExecuteActivity(t.Context(), client.StartActivityOptions{
		ID: devserver.Name(t), TaskQueue: f.queue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: 10 * time.Second,
	}, "work")
	require.NoError(t, err)
	f.waiters(t, 1)
	release()

	// then
	var locked string
	require.NoError(t, handle.Get(t.Context(), &locked))
	require.Equal(t, scope, locked)
	f.isFree(t)
}

// It comes from the SDK, before a heartbeat can find it out.
func TestCancellationThatIsPushedEndsALockedActivity(t *testing.T) {
	f := newFarm(t)
	began, ended := make(chan struct{}), make(chan error, 1)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}})
	run := f.start(t, "work", workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Minute, WaitForCancellation: true})
	receive(t, began, "the work")

	require.NoError(t, f.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))

	require.ErrorContains(t, receive(t, ended, "the cause"), "canceled")
	f.isFree(t)
}
