package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// assemble is a workflow with some of all that is in histories, from before there were locks. Between its parts it
// waits for a signal.
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
	minute := workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &sdk.RetryPolicy{InitialInterval: 10 * time.Millisecond},
	}
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

// A release is what has been deployed at some time.
type release struct {
	what    string
	code    func(workflow.Context) ([]bool, error)
	plugins []worker.Plugin
}

func (f *fixture) releases() []release {
	f.Helper()
	fits := temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}}
	never := fits // the hurried call does not have so much time
	never.AcquireTimeout, never.CleanupTimeout = new(time.Minute), time.Minute
	plugin := func(locks ...temporal.Lock) []worker.Plugin {
		var options []temporal.PluginOption
		for _, lock := range locks {
			options = append(options, temporal.Declare("part", lock))
		}
		p, err := temporal.NewPlugin(f.guard(), options...)
		require.NoError(f, err)
		return []worker.Plugin{p}
	}
	return []release{
		{"without the plugin", assemble, nil},
		{"with a declaration", assemble, plugin(fits)},
		{"with a lock for the call", assembleLocked, plugin()},
		{"with both", assembleLocked, plugin(fits)},
		{"without a declaration", assemble, plugin()},
		{"with a declaration that its timeouts do not fit", assemble, plugin(never)},
	}
}

func (r release) register(to worker.WorkflowRegistry) {
	to.RegisterWorkflowWithOptions(r.code, workflow.RegisterOptions{Name: "assemble"})
}

func (r release) replayer(t *testing.T) worker.WorkflowReplayer {
	t.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Plugins: r.plugins, DisableDeadlockDetection: true})
	require.NoError(t, err)
	r.register(replayer)
	return replayer
}

// deploy runs a worker of a release.
func (f *fixture) deploy(r release) worker.Worker {
	f.Helper()
	w := worker.New(f.temporal, f.queue, worker.Options{Plugins: r.plugins})
	r.register(w)
	w.RegisterActivityWithOptions(part, activity.RegisterOptions{Name: "part"})
	w.RegisterActivityWithOptions(func() error { return nil }, activity.RegisterOptions{Name: "plain"})
	require.NoError(f, w.Start())
	f.Cleanup(w.Stop)
	return w
}

// A declaration is put into running installations, and taken out of them.
func TestHistoriesReplayWithADeclarationAddedAndTakenAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	releases := f.releases()
	for _, r := range releases {
		require.NoError(t, r.replayer(t).ReplayWorkflowHistoryFromJSONFile(nil, "testdata/assemble.json"),
			"recorded without a lock, on some day; replayed %s", r.what)
	}

	// given histories that were recorded without a lock, with a declaration, and with one for the call
	for i, recorded := range releases[:3] {
		w := f.deploy(recorded)
		run := f.execute(client.StartWorkflowOptions{}, "assemble")
		f.goOn(run)
		require.Equal(t, []bool{i > 0, i > 0, i > 0}, completed[[]bool](f, run), recorded.what)
		w.Stop()

		// then each version replays them
		for _, r := range releases {
			require.NoError(t, r.replayer(t).ReplayWorkflowHistory(nil, f.history(run)),
				"recorded %s, replayed %s", recorded.what, r.what)
		}
	}

	// and one of a call that was refused, as long as it is
	refuses := releases[5]
	f.deploy(refuses)
	run := f.execute(client.StartWorkflowOptions{}, "assemble")
	f.goOn(run)
	_, err := result[any](f, run)
	require.ErrorContains(t, err, "it may wait 1m0s for its lock")
	require.NoError(t, refuses.replayer(t).ReplayWorkflowHistory(nil, f.history(run)))
	require.Error(t, releases[1].replayer(t).ReplayWorkflowHistory(nil, f.history(run)), "this test would see a difference")
}

func TestRunningWorkflowGoesOnUnderADeclarationThatIsAdded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	releases := f.releases()

	// given a workflow that has begun without a lock
	before := f.deploy(releases[0])
	run := f.execute(client.StartWorkflowOptions{}, "assemble")
	eventually(t, func() bool { return f.has(run, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED) }, "its first activity")
	before.Stop()

	// when the workers are replaced by those that declare one, then the rest of it runs under the lock
	f.deploy(releases[1])
	f.goOn(run)
	require.Equal(t, []bool{false, true, true}, completed[[]bool](f, run))
}
