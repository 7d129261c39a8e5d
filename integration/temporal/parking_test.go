package temporal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

var anHour = workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: 10 * time.Second}

// A worker has one slot. An activity waits in it for a lock, whose holder goes
// when another activity of the same worker has run. With nobody parked that
// would be never.
func TestActivityThatWaitsForALockLeavesItsSlotToTheOneThatTheHolderWaitsFor(t *testing.T) {
	// given
	f := newFarm(t)
	release := f.hold(t)
	oneSlot(t, f, func(context.Context) error {
		release()
		return nil
	})
	waiting := f.start(t, "Migrate", anHour)
	f.awaitStarted(t, waiting)

	// when
	next := f.start(t, "Finish", anHour)

	// then
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, next.Get(ctx, nil))
	require.NoError(t, waiting.Get(ctx, nil))
}

func TestActivitiesThatDoNotWaitHaveNoMoreSlotsThanThereAre(t *testing.T) {
	// given three that wait, of a worker with one slot
	f := newFarm(t)
	release := f.hold(t)
	var running, worst atomic.Int32
	oneSlot(t, f, func(ctx context.Context) error {
		defer running.Add(-1)
		worst.Store(max(worst.Load(), running.Add(1)))
		select {
		case <-time.After(100 * time.Millisecond): // for another one to come
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	var runs []client.WorkflowRun
	for range 3 {
		run := f.start(t, "Migrate", anHour)
		f.awaitStarted(t, run)
		runs = append(runs, run)
	}

	// when
	var others []client.WorkflowRun
	for range 5 {
		others = append(others, f.start(t, "Finish", anHour))
	}

	// then
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, run := range others {
		require.NoError(t, run.Get(ctx, nil))
	}
	require.EqualValues(t, 1, worst.Load())
	release()
	for _, run := range runs {
		require.NoError(t, run.Get(ctx, nil))
	}
}

// oneSlot runs a worker with one slot, for Migrate, which waits for the lock in
// it, and Finish, which needs none.
func oneSlot(t *testing.T, f farm, finish func(context.Context) error) {
	t.Helper()
	plugin, err := temporal.NewPlugin(f.guard(t), temporal.Declare("Migrate", temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyWait}))
	require.NoError(t, err)
	w := worker.New(f.client, f.queue, worker.Options{MaxConcurrentActivityExecutionSize: 1, Plugins: []worker.Plugin{plugin}})
	w.RegisterWorkflow(single)
	w.RegisterActivityWithOptions(func(ctx context.Context) error { return ctx.Err() }, activity.RegisterOptions{Name: "Migrate"})
	w.RegisterActivityWithOptions(finish, activity.RegisterOptions{Name: "Finish"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// awaitStarted returns when the activity of the workflow has a slot.
func (f farm) awaitStarted(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	eventually(t, func() bool {
		described, err := f.client.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
		return err == nil && len(described.GetPendingActivities()) == 1 &&
			described.GetPendingActivities()[0].GetState() == enums.PENDING_ACTIVITY_STATE_STARTED
	}, "the activity was not started")
}

// One may be parked. Another one that waits has the only slot, and what its holder
// waits for is behind it: when the first one is gone, it gives way.
func TestActivityThatFoundNoPlaceToParkParksWhenThereIsOne(t *testing.T) {
	// given
	f := newFarm(t)
	free := make(map[string]func())
	scopes := map[string]string{"Migrate": scope + "/a", "Repair": scope + "/b"}
	options := []temporal.PluginOption{temporal.WithMaxParked(1)}
	for name, scope := range scopes {
		hold, err := f.guard(t).Acquire(t.Context(), lockguard.Requirement{Scope: scope})
		require.NoError(t, err)
		free[name] = func() { require.NoError(t, hold.Release(context.WithoutCancel(t.Context()))) }
		options = append(options, temporal.Declare(name, temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}, OnBusy: temporal.BusyWait}))
	}
	nothing := func(ctx context.Context) error { return ctx.Err() }
	finish := func(context.Context) error { free["Repair"](); return nil }
	f.workerOn(t, f.guard(t), options, func(r worker.Registry) {
		r.RegisterWorkflow(single)
		for name, a := range map[string]any{"Migrate": nothing, "Repair": nothing, "Finish": finish} {
			r.RegisterActivityWithOptions(a, activity.RegisterOptions{Name: name})
		}
	}, func(o *worker.Options) { o.MaxConcurrentActivityExecutionSize = 1 })
	parked := f.start(t, "Migrate", anHour)
	f.awaitStarted(t, parked)
	waiting := f.start(t, "Repair", anHour)
	f.awaitStarted(t, waiting)
	f.heartbeats(t, waiting, 1) // long after it would have parked

	// when
	free["Migrate"]()
	require.NoError(t, parked.Get(soon(t), nil))
	next := f.start(t, "Finish", anHour)

	// then
	require.NoError(t, next.Get(soon(t), nil))
	require.NoError(t, waiting.Get(soon(t), nil))
}
