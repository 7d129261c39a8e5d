package temporal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// works has a worker for one workflow, which may panic, and starts it.
func (y *yard) works(o client.StartWorkflowOptions, f func(ctx workflow.Context) error) client.WorkflowRun {
	y.t.Helper()
	p, err := temporal.NewPlugin(y.guard())
	require.NoError(y.t, err)
	w := worker.New(y.c, y.queue, worker.Options{Plugins: []worker.Plugin{p}, WorkflowPanicPolicy: worker.FailWorkflow})
	y.register(w)
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		return f(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute}))
	}, workflow.RegisterOptions{Name: "one"})
	require.NoError(y.t, w.Start())
	y.t.Cleanup(w.Stop)
	o.ID, o.TaskQueue = devserver.Name(y.t), y.queue
	run, err := y.c.ExecuteWorkflow(y.t.Context(), o, "one")
	require.NoError(y.t, err)
	return run
}

func TestLockIsFreeHoweverTheWorkflowEnds(t *testing.T) {
	t.Parallel()
	sleeps := func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }
	for name, c := range map[string]struct {
		options client.StartWorkflowOptions
		body    func(ctx workflow.Context) error
		end     func(y *yard, run client.WorkflowRun)
		want    string
	}{
		"ItPanics":      {body: func(workflow.Context) error { panic("ouch") }, want: "ouch"},
		"ItTimesOut":    {options: client.StartWorkflowOptions{WorkflowRunTimeout: 3 * time.Second}, body: sleeps, want: "timeout"},
		"ItsHookPanics": {body: sleeps, end: func(y *yard, _ client.WorkflowRun) { y.hotfix(y.guard()) }, want: "oops"},
		"ItIsDeleted": {body: sleeps, end: func(y *yard, run client.WorkflowRun) {
			_, err := y.c.WorkflowService().DeleteWorkflowExecution(y.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: namespaceOf(y.t, y.c), WorkflowExecution: &common.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
			})
			require.NoError(y.t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			run := y.works(c.options, func(ctx workflow.Context) error {
				return temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
					if err := workflow.ExecuteActivity(ctx, "step").Get(ctx, nil); err != nil {
						return err
					}
					return c.body(ctx)
				}, temporal.KeptBy(temporal.KeeperOptions{HeartbeatTimeout: 3 * time.Second}),
					temporal.OnPreempt(func(workflow.Context, temporal.Preemption) error { panic("oops") }))
			})
			wait(t, y.came, "step")
			if c.end != nil {
				y.sleeping(run)
				c.end(y, run)
			}
			if c.want != "" {
				require.ErrorContains(t, y.ended(run), c.want)
			}
			y.isFree(y.guard())
		})
	}
}

func TestActivityThatIsLeftBehindDoesNotRunWithoutTheLock(t *testing.T) {
	t.Parallel()
	// given a body that returns while one of its coroutines goes on
	y := newYard(t)
	run := y.works(client.StartWorkflowOptions{}, func(ctx workflow.Context) error {
		late, settle := workflow.NewFuture(ctx)
		err := temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
			workflow.Go(ctx, func(ctx workflow.Context) {
				_ = workflow.Sleep(ctx, time.Second)
				settle.SetError(workflow.ExecuteActivity(ctx, "step").Get(ctx, nil))
			})
			return nil
		})
		if err != nil {
			return err
		}
		return late.Get(ctx, nil)
	})
	requireFailed(t, temporal.ErrTypeLockLost, y.ended(run))
	require.Empty(t, y.said())
}

func TestWorkflowOfAScheduleMayTakeTheSameLock(t *testing.T) {
	t.Parallel()
	// given a workflow that takes its lock by itself, and continues as new, when a
	// schedule has started it that declares the lock as well
	y := newYard(t)
	declared := map[string]any{"locks": []lockguard.Requirement{ordersLock}}
	run := y.works(client.StartWorkflowOptions{Memo: map[string]any{temporal.LocksMemoKey: declared}}, func(ctx workflow.Context) error {
		err := temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
			return workflow.ExecuteActivity(ctx, "step").Get(ctx, nil)
		})
		if err != nil || workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
			return err
		}
		return workflow.NewContinueAsNewError(ctx, "one")
	})

	// then it does not wait for itself
	require.NoError(t, y.ended(run))
	said := y.said()
	require.Len(t, said, 2)
	require.NotZero(t, said[0].Token)
	require.Greater(t, said[1].Token, said[0].Token)
	y.isFree(y.guard())
}
