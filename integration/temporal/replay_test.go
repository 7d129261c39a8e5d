package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apihistory "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// assemble is a workflow with some of all that is in histories, before anybody
// thought of locks. Between its parts it waits for a signal.
func assemble(ctx workflow.Context) ([]bool, error) { return assembly(ctx, ctx) }

// assembleLocked is the same, with a lock for the call.
func assembleLocked(ctx workflow.Context) ([]bool, error) {
	return assembly(ctx, temporal.WithActivityLock(ctx, temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}}))
}

func assembly(ctx, calls workflow.Context) ([]bool, error) {
	var locked [3]bool
	call := func(i int, options workflow.ActivityOptions) workflow.Future {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(calls, options), "part")
	}
	minute := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &sdk.RetryPolicy{InitialInterval: 10 * time.Millisecond}}
	if err := call(0, minute).Get(ctx, &locked[0]); err != nil {
		return nil, err
	}
	workflow.GetVersion(ctx, "change", workflow.DefaultVersion, 1)
	workflow.GetSignalChannel(ctx, "go on").Receive(ctx, nil)
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return nil, err
	}
	// at once, one of them with hardly any time
	hurried := call(1, workflow.ActivityOptions{ScheduleToCloseTimeout: 20 * time.Second, StartToCloseTimeout: 20 * time.Second})
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteLocalActivity(local, "plain").Get(ctx, nil); err != nil {
		return nil, err
	}
	if err := call(2, minute).Get(ctx, &locked[2]); err != nil {
		return nil, err
	}
	err := hurried.Get(ctx, &locked[1])
	return locked[:], err
}

// part fails at first, and then says whether it has run under a lock.
func part(ctx context.Context) (bool, error) {
	if activity.GetInfo(ctx).Attempt == 1 {
		return false, errors.New("not yet")
	}
	_, locked := lockguard.FromContext(ctx)
	return locked, nil
}

// assemblers runs a worker for those workflows.
func (f farm) assemblers(t *testing.T, code func(workflow.Context) ([]bool, error), plugins ...worker.Plugin) worker.Worker {
	t.Helper()
	w := worker.New(f.client, f.queue, worker.Options{Plugins: plugins})
	w.RegisterWorkflowWithOptions(code, workflow.RegisterOptions{Name: "assemble"})
	register(w, "part", part)
	register(w, "plain", func() error { return nil })
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return w
}

func (f farm) assemble(t *testing.T) client.WorkflowRun {
	t.Helper()
	run, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: devserver.Name(t), TaskQueue: f.queue}, "assemble")
	require.NoError(t, err)
	return run
}

func (f farm) goOn(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	require.NoError(t, f.client.SignalWorkflow(t.Context(), run.GetID(), run.GetRunID(), "go on", nil))
}

// A declaration is put into running installations, and taken out of them.
func TestHistoriesReplayWithADeclarationAddedAndTakenAway(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	fits := temporal.Lock{Requirement: requirement()}
	never := fits // the hurried call does not have so much time
	never.AcquireTimeout, never.CleanupTimeout = new(time.Minute), time.Minute
	plugin := func(locks ...temporal.Lock) worker.Plugin {
		var options []temporal.PluginOption
		for _, lock := range locks {
			options = append(options, temporal.Declare("part", lock))
		}
		p, err := temporal.NewPlugin(f.guard(t), options...)
		require.NoError(t, err)
		return p
	}
	type version struct {
		what    string
		code    func(workflow.Context) ([]bool, error)
		plugins []worker.Plugin
	}
	versions := []version{
		{"without the plugin", assemble, nil},
		{"without a declaration", assemble, []worker.Plugin{plugin()}},
		{"with a declaration", assemble, []worker.Plugin{plugin(fits)}},
		{"with one that its timeouts do not fit", assemble, []worker.Plugin{plugin(never)}},
		{"with a lock for the call", assembleLocked, []worker.Plugin{plugin()}},
		{"with both", assembleLocked, []worker.Plugin{plugin(fits)}},
	}

	// given histories that were recorded without a lock, with a declaration, and with
	// one for the call
	for _, recorded := range []version{versions[0], versions[2], versions[4]} {
		w := f.assemblers(t, recorded.code, recorded.plugins...)
		run := f.assemble(t)
		f.goOn(t, run)
		locked, err := result[[]bool](t, run)
		require.NoError(t, err)
		want := recorded.plugins != nil
		require.Equal(t, []bool{want, want, want}, locked, recorded.what)
		w.Stop()
		events := &apihistory.History{Events: devserver.History(t, f.client, run.GetID(), run.GetRunID())}

		// then each version replays them
		for _, v := range versions {
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Plugins: v.plugins})
			require.NoError(t, err)
			replayer.RegisterWorkflowWithOptions(v.code, workflow.RegisterOptions{Name: "assemble"})
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, events), "recorded %s, replayed %s", recorded.what, v.what)
		}
	}
}

func TestRunningWorkflowGoesOnUnderADeclarationThatIsAdded(t *testing.T) {
	t.Parallel()
	f := newFarm(t)

	// given a workflow that has begun without a lock
	before := f.assemblers(t, assemble)
	run := f.assemble(t)
	eventually(t, func() bool {
		return len(devserver.History(t, f.client, run.GetID(), run.GetRunID())) >= 12
	}, "it waits for the signal")
	before.Stop()

	// when the workers are replaced by those that declare one
	p, err := temporal.NewPlugin(f.guard(t), temporal.Declare("part", temporal.Lock{Requirement: requirement()}))
	require.NoError(t, err)
	f.assemblers(t, assemble, p)
	f.goOn(t, run)

	// then the rest of it runs under the lock
	locked, err := result[[]bool](t, run)
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, locked)
}
