package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// runs starts a worker for one workflow, and that workflow.
func (y *yard) runs(f func(ctx workflow.Context) error) client.WorkflowRun {
	y.t.Helper()
	return y.works(client.StartWorkflowOptions{}, f)
}

// ended waits for the end of a workflow that has no result.
func (y *yard) ended(run client.WorkflowRun) error {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), 2*patience)
	defer cancel()
	err := run.Get(ctx, nil)
	require.NoError(y.t, ctx.Err(), "the workflow does not end")
	return err
}

var usersLock = lockguard.Requirement{Scope: "cluster/users", Priority: 5, CleanupTimeout: 20 * time.Second}

func TestPreemptionOfTheOuterLockPutsTheInnerOneRight(t *testing.T) {
	for name, step := range map[string]string{"BetweenActivities": "step", "WhileOneRuns": "block"} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			hotfix := y.guard()
			run := y.runs(func(ctx workflow.Context) error {
				return temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
					return temporal.WithLock(ctx, usersLock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
						if err := workflow.ExecuteActivity(ctx, step).Get(ctx, nil); err != nil {
							return err
						}
						return workflow.Sleep(ctx, time.Hour)
					}, temporal.OnPreempt(func(ctx workflow.Context, p temporal.Preemption) error {
						return workflow.ExecuteActivity(ctx, "undo").Get(ctx, nil)
					}))
				})
			})

			// given two locks, one in the other, when somebody wants the outer one
			if step == "step" {
				wait(t, y.came, "step")
				y.sleeping(run)
			} else {
				wait(t, y.blocked, "block")
			}
			y.hotfix(hotfix)
			err := y.ended(run)
			requireFailed(t, temporal.ErrTypeLockPreempted, err)

			// then what was done under the inner one has been put right, under it
			said := y.said()
			require.Len(t, said, 2)
			require.Equal(t, "undo", said[1].Step)
			require.Equal(t, said[0].Token, said[1].Token)
		})
	}
}

func TestSagaOfTheBodyRunsUnderTheLock(t *testing.T) {
	// given a body that puts things right itself, in a context that does not end
	y := newYard(t)
	hotfix := y.guard()
	run := y.runs(func(ctx workflow.Context) error {
		return temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, _ temporal.WorkflowHold) (err error) {
			defer func() {
				if err != nil {
					ctx, _ := workflow.NewDisconnectedContext(ctx)
					err = errors.Join(err, workflow.ExecuteActivity(ctx, "undo").Get(ctx, nil))
				}
			}()
			if err := workflow.ExecuteActivity(ctx, "step").Get(ctx, nil); err != nil {
				return err
			}
			return workflow.Sleep(ctx, time.Hour)
		})
	})
	wait(t, y.came, "step")
	y.sleeping(run)

	// when somebody asks for the lock, then that comes before
	token := y.hotfix(hotfix)
	err := y.ended(run)
	requireFailed(t, temporal.ErrTypeLockPreempted, err)
	said := y.said()
	require.Len(t, said, 2)
	require.Equal(t, "undo", said[1].Step)
	require.Equal(t, said[0].Token, said[1].Token)
	require.Greater(t, token, said[1].Token)
}

func TestLockOfTheBodyIsThatOfABodyInIt(t *testing.T) {
	y := newYard(t)
	var outer, inner lockguard.Token
	run := y.runs(func(ctx workflow.Context) error {
		return temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
			outer = hold.Token()
			return temporal.WithLock(ctx, ordersLock, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
				inner = hold.Token()
				return workflow.ExecuteActivity(ctx, "step").Get(ctx, nil)
			})
		})
	})
	require.NoError(t, y.ended(run))
	require.NotZero(t, outer)
	require.Equal(t, outer, inner)
	require.Equal(t, outer, y.said()[0].Token)
	y.isFree(y.guard())
}

func TestStrangersSignalKeepsNobodyWaiting(t *testing.T) {
	// given a workflow that waits for its lock
	y := newYard(t)
	g := y.guard()
	hold, err := g.Acquire(t.Context(), lockguard.Requirement{Scope: ordersLock.Scope, Priority: 9})
	require.NoError(t, err)
	y.work()
	run := y.start(migration{Steps: []string{"step"}})
	name := y.signalName(run)

	// when somebody sends what is no signal of its keeper, and it is cancelled then
	require.NoError(t, y.c.SignalWorkflow(t.Context(), run.GetID(), "", name, "garbage"))
	require.NoError(t, y.c.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))

	// then it ends
	_, err = y.result(run)
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	require.NoError(t, hold.Release(t.Context()))
}

// signalName is that of the signals of the only hold of a workflow.
func (y *yard) signalName(run client.WorkflowRun) (name string) {
	y.t.Helper()
	require.Eventually(y.t, func() bool {
		for _, e := range devserver.History(y.t, y.c, run.GetID(), run.GetRunID()) {
			if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == temporal.HolderActivity {
				var input struct{ Name string }
				require.NoError(y.t, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &input))
				name = "lockkeeper/" + input.Name
			}
		}
		return name != ""
	}, patience, 20*time.Millisecond)
	return name
}
