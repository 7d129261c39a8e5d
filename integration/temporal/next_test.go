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
)

// What only servers can do that are newer than the one of all other tests. See `make test-temporal-next`.

func TestActivityOfNoWorkflowRunsUnderItsLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.holds()
	f.work(setup{activities: map[string]any{"work": func(ctx context.Context) (string, error) {
		hold, _ := lockguard.FromContext(ctx)
		return hold.Info().Requirement.Scope, nil
	}}})
	handle, err := f.temporal.ExecuteActivity(t.Context(), client.StartActivityOptions{
		ID: devserver.Name(t), TaskQueue: f.queue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: 10 * time.Second,
	}, "work")
	require.NoError(t, err)
	f.waiters(1)
	release()
	var locked string
	require.NoError(t, handle.Get(t.Context(), &locked))
	require.Equal(t, scope, locked)
	f.isFree()
}

// It comes from the SDK, before a heartbeat can find it out.
func TestCancellationThatIsPushedEndsALockedActivity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work(setup{})
	run := f.start("linger", retrying(func(o *workflow.ActivityOptions) { o.HeartbeatTimeout, o.WaitForCancellation = time.Minute, true }))
	f.awaits("write")
	f.cancel(run)
	require.Contains(t, f.awaits("told").Cause, "canceled")
	f.isFree()
}
