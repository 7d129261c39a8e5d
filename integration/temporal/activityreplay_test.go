package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	apihistory "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// twice executes an activity that may be refused, and goes on all the same.
func twice(ctx workflow.Context, options workflow.ActivityOptions) (refusals int, err error) {
	ctx = workflow.WithActivityOptions(ctx, options)
	for range 2 {
		if err := workflow.ExecuteActivity(ctx, "work").Get(ctx, nil); err != nil {
			refusals++
		}
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
			return refusals, err
		}
	}
	return refusals, nil
}

// TestHistoriesReplayWithAndWithoutADeclaration is about a workflow that was
// recorded before a lock was declared for its activity, or after.
func TestHistoriesReplayWithAndWithoutADeclaration(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	fits := temporal.Lock{Requirement: requirement()}
	tooLong := temporal.Lock{Requirement: requirement()}
	tooLong.CleanupTimeout = 2 * time.Minute
	with := func(locks ...temporal.Lock) []worker.Plugin {
		var options []temporal.PluginOption
		for _, lock := range locks {
			options = append(options, temporal.Declare("work", lock))
		}
		plugin, err := temporal.NewPlugin(f.guard(t), options...)
		require.NoError(t, err)
		return []worker.Plugin{plugin}
	}
	options := workflow.ActivityOptions{ScheduleToCloseTimeout: time.Minute}
	record := func(refusals int, plugins []worker.Plugin) *apihistory.History {
		queue := devserver.Name(t)
		w := worker.New(f.client, queue, worker.Options{Plugins: plugins})
		w.RegisterWorkflow(twice)
		w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "work"})
		require.NoError(t, w.Start())
		defer w.Stop()
		run, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: queue, TaskQueue: queue}, twice, options)
		require.NoError(t, err)
		var got int
		require.NoError(t, run.Get(soon(t), &got))
		require.Equal(t, refusals, got)
		return &apihistory.History{Events: devserver.History(t, f.client, run.GetID(), run.GetRunID())}
	}
	replay := func(h *apihistory.History, plugins []worker.Plugin) error {
		r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Plugins: plugins})
		require.NoError(t, err)
		r.RegisterWorkflow(twice)
		return r.ReplayWorkflowHistory(nil, h)
	}

	// given one from before, and one from after
	plain, locked := record(0, nil), record(0, with(fits))
	require.Len(t, locked.Events, len(plain.Events))
	for _, h := range []*apihistory.History{plain, locked} {
		require.NoError(t, replay(h, nil))
		require.NoError(t, replay(h, with()))
		require.NoError(t, replay(h, with(fits)))
		require.NoError(t, replay(h, with(tooLong)), "what was scheduled is not refused afterwards")
	}

	// and one whose activities were refused
	refused := record(2, with(tooLong))
	for _, e := range refused.Events {
		require.NotEqual(t, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, e.GetEventType())
	}
	require.NoError(t, replay(refused, with(tooLong)))
	require.Error(t, replay(refused, with(fits)), "this test would see a difference")
}
