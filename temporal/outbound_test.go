package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// seen is what an activity sees of how it was executed.
type seen struct {
	Scope                         string
	Heartbeat, StartToClose, Left time.Duration
}

func look(ctx context.Context, _ string) (seen, error) {
	info := activity.GetInfo(ctx)
	s := seen{Heartbeat: info.HeartbeatTimeout, StartToClose: info.StartToCloseTimeout}
	if hold, ok := lockguard.FromContext(ctx); ok {
		s.Scope = hold.Info().Requirement.Scope
	}
	if deadline, ok := ctx.Deadline(); ok {
		s.Left = time.Until(deadline)
	}
	return s, nil
}

// lookers say themselves which lock they need.
type lookers struct{}

func (*lookers) Look(ctx context.Context, s string) (seen, error)  { return look(ctx, s) }
func (*lookers) Plain(ctx context.Context, s string) (seen, error) { return look(ctx, s) }
func (*lookers) Locks() map[string]temporal.Lock {
	return map[string]temporal.Lock{"Look": lockOn("of/struct/{{.}}")}
}

func lockOn(scope string) temporal.Lock {
	return temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}}
}

// workflows runs a workflow under the plugin.
func workflows(t *testing.T, do func(ctx workflow.Context) error, options ...temporal.PluginOption) error {
	t.Helper()
	p := newPlugin(t, newGuard(t, zktest.RunT(t), "worker"), options...)
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Plugins: []worker.Plugin{p}, DeadlockDetectionTimeout: patience})
	env.SetTestTimeout(patience)
	env.RegisterActivityWithOptions(&lookers{}, activity.RegisterOptions{SkipInvalidStructFunctions: true})
	env.RegisterActivityWithOptions(look, activity.RegisterOptions{Name: "look"})
	env.RegisterWorkflow(do)
	env.ExecuteWorkflow(do)
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

// see executes an activity.
func see(ctx workflow.Context, name string, options workflow.ActivityOptions) (s seen, err error) {
	if options.ScheduleToCloseTimeout+options.StartToCloseTimeout == 0 {
		options.StartToCloseTimeout = time.Minute
	}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), name, "x").Get(ctx, &s)
	return s, err
}

func TestLockOfACallGoesBeforeThatOfTheTypeBeforeThatOfTheStruct(t *testing.T) {
	of := func(ctx workflow.Context, name string) string {
		s, err := see(ctx, name, workflow.ActivityOptions{})
		require.NoError(t, err)
		return s.Scope
	}
	require.NoError(t, workflows(t, func(ctx workflow.Context) error {
		require.Equal(t, "of/struct/x", of(ctx, "Look"))
		require.Empty(t, of(ctx, "Plain"))
		require.Equal(t, "of/type", of(ctx, "look"))
		special := temporal.WithActivityLock(ctx, lockOn("of/call/{{.}}"))
		require.Equal(t, "of/call/x", of(special, "Look"))
		require.Equal(t, "of/call/x", of(special, "Plain"))
		require.Equal(t, "of/call/x", of(special, "look"))
		return nil
	}, temporal.Declare("look", lockOn("of/type"))))

	require.NoError(t, workflows(t, func(ctx workflow.Context) error {
		require.Equal(t, "of/type", of(ctx, "Look"))
		return nil
	}, temporal.Declare("Look", lockOn("of/type"))))
}

func TestLockOfACallThatCannotBeFailsItsFuture(t *testing.T) {
	require.NoError(t, workflows(t, func(ctx workflow.Context) error {
		_, err := see(temporal.WithActivityLock(ctx, lockOn("{{")), "look", workflow.ActivityOptions{})
		failure := failed(t, err)
		require.Equal(t, temporal.ErrTypeLockConfiguration, failure.Type())
		require.True(t, failure.NonRetryable())

		hooked := lockOn("s")
		hooked.CleanupTimeout, hooked.Cleanup = time.Second, func(context.Context) error { return nil }
		_, err = see(temporal.WithActivityLock(ctx, hooked), "look", workflow.ActivityOptions{})
		require.ErrorContains(t, err, "a cleanup hook cannot travel with a call")
		return nil
	}))
}

func TestLockOfACallNeedsThePluginInTheWorkflowsWorker(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: patience})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		temporal.WithActivityLock(ctx, lockOn("s"))
		return nil
	})
	require.ErrorContains(t, env.GetWorkflowError(), "the plugin is not installed in this worker, so the lock would not be taken")
}

func TestOptionsAreMadeToFitTheLock(t *testing.T) {
	lock := lockOn("s")
	lock.CleanupTimeout = 10 * time.Second
	hour := workflow.ActivityOptions{StartToCloseTimeout: time.Hour}
	require.NoError(t, workflows(t, func(ctx workflow.Context) error {
		s, err := see(ctx, "look", hour)
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, s.Heartbeat)
		require.Equal(t, time.Hour+temporal.DefaultInSlotWait+10*time.Second+2*time.Second, s.StartToClose)
		require.LessOrEqual(t, s.Left, time.Hour, "from the grant on it has what the workflow says")
		require.Greater(t, s.Left, time.Hour-patience)

		long := hour
		long.HeartbeatTimeout = time.Minute
		s, err = see(ctx, "look", long)
		require.NoError(t, err)
		require.Equal(t, time.Minute, s.Heartbeat)

		s, err = see(ctx, "Plain", hour)
		require.NoError(t, err)
		require.Equal(t, time.Hour, s.StartToClose)
		require.Zero(t, s.Heartbeat)
		return nil
	}, temporal.Declare("look", lock)))

	require.NoError(t, workflows(t, func(ctx workflow.Context) error {
		s, err := see(ctx, "look", hour)
		require.NoError(t, err)
		require.Equal(t, time.Hour, s.StartToClose)
		require.Zero(t, s.Heartbeat)
		require.LessOrEqual(t, s.Left, time.Hour-10*time.Second, "there is time for the cleanup")
		return nil
	}, temporal.Declare("look", lock), temporal.WithActivityOptionsKept()))
}

func TestActivityThatCannotFitItsTimeoutsIsNotScheduled(t *testing.T) {
	lock := lockOn("s")
	lock.AcquireTimeout, lock.CleanupTimeout = new(30*time.Second), 10*time.Second
	for name, c := range map[string]struct {
		start, total time.Duration
		fits         bool
	}{
		"fits":             {20 * time.Second, time.Minute, true},
		"no total":         {time.Hour, 0, true},
		"too much":         {21 * time.Second, time.Minute, false},
		"no time to run":   {0, 40 * time.Second, false},
		"some time to run": {0, 41 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, workflows(t, func(ctx workflow.Context) error {
				_, err := see(ctx, "look", workflow.ActivityOptions{StartToCloseTimeout: c.start, ScheduleToCloseTimeout: c.total})
				if c.fits {
					require.NoError(t, err)
					return nil
				}
				failure := failed(t, err)
				require.Equal(t, temporal.ErrTypeLockConfiguration, failure.Type())
				require.True(t, failure.NonRetryable())
				require.ErrorContains(t, err, "it may wait 30s for its lock")
				require.NotErrorAs(t, err, new(*sdk.ActivityError), "it was scheduled")
				return nil
			}, temporal.Declare("look", lock)))
		})
	}
}
