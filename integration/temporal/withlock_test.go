package temporal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// works runs a worker for one workflow, which may panic, and starts it.
func (f *fixture) works(o client.StartWorkflowOptions, body func(ctx workflow.Context) error, activities ...string) client.WorkflowRun {
	f.Helper()
	plain := make(map[string]any)
	for _, name := range activities {
		plain[name] = f.reporter(name).linger
	}
	f.work(setup{
		plain: plain, options: worker.Options{WorkflowPanicPolicy: worker.FailWorkflow},
		workflows: map[string]any{"one": func(ctx workflow.Context) error {
			return body(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				StartToCloseTimeout: time.Minute, HeartbeatTimeout: 5 * time.Second, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1},
			}))
		}},
	})
	return f.execute(o, "one")
}

func TestEventsOfAWorkflowHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work(setup{})
	count := func(m migration) (events int) {
		m.Steps = []string{"step", "step"}
		run := f.migrate(m)
		completed[any](f, run)
		return len(f.events(run))
	}
	without := count(migration{Unlocked: true})
	require.LessOrEqual(t, count(migration{})-without, 7, "at the end of the workflow")
	require.LessOrEqual(t, count(migration{OnClose: true})-without, 5, "released on close")
}

func TestCancelledWorkflowPutsThingsRightUnderTheLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work(setup{})
	run := f.migrate(migration{Steps: []string{"step"}, Waits: true})
	f.asleep(run)
	f.cancel(run)
	f.isCanceled(run)
	require.Equal(t, f.awaits("step").Token, f.awaits("undo").Token)
	f.isFree()
}

func TestForcefulRequestCutsTheCleanupOfAWorkflowShort(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lock := migrated
	lock.CleanupTimeout = 12 * time.Second
	run := f.works(client.StartWorkflowOptions{}, func(ctx workflow.Context) error {
		return temporal.WithLock(ctx, lock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
			return workflow.ExecuteActivity(ctx, "work").Get(ctx, nil)
		}, temporal.OnPreempt(func(ctx workflow.Context, _ temporal.Preemption) error {
			return workflow.ExecuteActivity(ctx, "mend").Get(ctx, nil)
		}))
	}, "work", "mend")
	first := f.awaits("write", by("work"))

	// when somebody takes the lock by force, and does not wait for the cleanup
	token := f.requests(hotfix).Granted()
	_, err := f.reporter("hotfix").send(t.Context(), report{What: "write", Token: token})
	require.NoError(t, err)

	// then the cleanup had begun under the token of the workflow, and both know that they have to go
	require.Equal(t, "preempted", f.awaits("told", by("work")).Cause)
	require.Equal(t, first.Token, f.awaits("write", by("mend")).Token)
	f.awaits("told", by("mend"))
	f.failed(run, temporal.ErrTypeLockPreempted, temporal.ErrTypeLockLost)

	// and what they still write is refused
	f.open("late")
	for _, who := range []string{"work", "mend"} {
		f.awaits("write", by(who), refused)
	}
	require.Len(t, f.reported("write"), 5)
	for i, r := range f.reported("write") {
		require.Equal(t, i > 2, r.Refused, "%+v", r)
	}
}

func TestContinueAsNewKeepsTheLockAndTheToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work(setup{name: "one"})
	f.work(setup{name: "other"})
	last := migration{Steps: []string{"step"}, Waits: true}
	second := migration{Steps: []string{"step"}, Next: &last}
	run := f.migrate(migration{Steps: []string{"step"}, Next: &second})
	f.awaits("step")
	next := f.requests(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}})
	f.waiters(1)
	harness.Eventually(t, func() bool { return len(f.reported("step")) == 3 }, "the third run is there")
	f.goOn(run)

	// three runs, one token; waiters come after them
	f.sameToken(1, completed[[]lockguard.Token](f, run))
	var tokens []lockguard.Token
	for _, r := range f.reported("step") {
		tokens = append(tokens, r.Token)
	}
	require.Greater(t, next.Granted(), f.sameToken(3, tokens))
}

func TestWorkflowThatIsResetGetsTheLockAnew(t *testing.T) {
	t.Parallel()
	// given a workflow that holds its lock
	f := newFixture(t)
	f.work(setup{})
	run := f.migrate(migration{Steps: []string{"step"}, Waits: true})
	f.asleep(run)

	// when it is reset to its beginning
	reset, err := f.temporal.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: f.namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		Reason: "test", RequestId: devserver.Name(t), WorkflowTaskFinishEventId: 4,
	})
	require.NoError(t, err)
	f.goOn(run)

	// then the new run has the lock, with a token of its own
	tokens := completed[[]lockguard.Token](f, f.temporal.GetWorkflow(t.Context(), run.GetID(), reset.GetRunId()))
	require.Greater(t, f.sameToken(1, tokens), f.reported("step")[0].Token)
	f.isFree()
}

func TestLockIsFreeHoweverTheWorkflowEnds(t *testing.T) {
	t.Parallel()
	waits := func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }
	for name, c := range map[string]struct {
		timeout time.Duration
		body    func(ctx workflow.Context) error
		end     func(f *fixture, run client.WorkflowRun)
		want    string
	}{
		"it panics":        {body: func(workflow.Context) error { panic("ouch") }, want: "ouch"},
		"it times out":     {timeout: 10 * time.Second, body: waits, want: "timeout"},
		"it is terminated": {body: waits, end: (*fixture).terminate, want: "terminated"},
		"its hook panics":  {body: waits, end: func(f *fixture, _ client.WorkflowRun) { f.requests(hotfix).Granted() }, want: "oops"},
		"it is deleted": {body: waits, end: func(f *fixture, run client.WorkflowRun) {
			_, err := f.temporal.WorkflowService().DeleteWorkflowExecution(f.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: f.namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
			})
			require.NoError(f, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			run := f.works(client.StartWorkflowOptions{WorkflowRunTimeout: c.timeout}, func(ctx workflow.Context) error {
				return temporal.WithLock(ctx, migrated, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
					return errors.Join(workflow.ExecuteActivity(ctx, "step").Get(ctx, nil), c.body(ctx))
				}, temporal.KeptBy(temporal.KeeperOptions{HeartbeatTimeout: 3 * time.Second}),
					temporal.OnPreempt(func(workflow.Context, temporal.Preemption) error { panic("oops") }))
			})
			f.awaits("step")
			if c.end != nil {
				f.asleep(run)
				c.end(f, run)
			}
			if c.want != "" {
				_, err := result[any](f, run)
				require.ErrorContains(t, err, c.want)
			}
			f.isFree()
			require.Len(t, f.reported(), 1, "nothing else was run")
		})
	}
}

func TestWorkflowOfAScheduleMayTakeTheSameLock(t *testing.T) {
	t.Parallel()
	// given a workflow that takes its lock by itself, and continues as new, when a schedule has started it that declares
	// the lock as well
	f := newFixture(t)
	declared := map[string]any{"locks": []lockguard.Requirement{migrated}}
	run := f.works(client.StartWorkflowOptions{Memo: map[string]any{temporal.LocksMemoKey: declared}}, func(ctx workflow.Context) error {
		err := temporal.WithLock(ctx, migrated, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
			return workflow.ExecuteActivity(ctx, "step").Get(ctx, nil)
		})
		if err != nil || workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
			return err
		}
		return workflow.NewContinueAsNewError(ctx, "one")
	})

	// then it does not wait for itself
	completed[any](f, run)
	steps := f.reported("step")
	require.Len(t, steps, 2)
	require.NotZero(t, steps[0].Token)
	require.Greater(t, steps[1].Token, steps[0].Token)
	f.isFree()
}
