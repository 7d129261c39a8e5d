package temporal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// emergency takes the lock when it may, writes a line, and gives it back.
func (f farm) emergency(t *testing.T, order *notes, change ...func(*lockguard.Requirement)) <-chan error {
	t.Helper()
	r := lockguard.Requirement{Scope: scope, Priority: 7, Owner: "emergency"}
	for _, change := range change {
		change(&r)
	}
	g := f.guard(t)
	done := make(chan error, 1)
	go func() {
		done <- g.Do(t.Context(), r, func(context.Context) error { order.add("emergency"); return nil })
	}()
	return done
}

func TestActivityThatWaitsIsOvertakenAndWaitsOn(t *testing.T) {
	t.Parallel()
	for _, busy := range []temporal.Busy{temporal.BusyWait, temporal.BusyRetry} {
		t.Run(busy.String(), func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			release := f.hold(t)
			var order notes
			f.worker(t, temporal.Lock{Requirement: requirement(), OnBusy: busy}, map[string]any{"work": func() error { order.add("activity"); return nil }})
			run := f.start(t, "work", retrying())
			f.waits(t)
			done := f.emergency(t, &order)
			f.waiters(t, 2)
			release()
			require.NoError(t, receive(t, done, "the emergency"))
			_, err := result[any](t, run)
			require.NoError(t, err)
			require.Equal(t, []string{"emergency", "activity"}, order.all())
		})
	}
}

// The lock is granted to an attempt that has yielded, long before the next one comes.
func TestLockThatIsKeptForTheNextAttemptIsLeftToWhoIsMoreImportant(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	release := f.hold(t)
	var order notes
	lock := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry, RetryDelay: time.Hour}
	f.workerWith(t, lock, map[string]any{"work": func() error { order.add("activity"); return nil }}, []temporal.PluginOption{temporal.WithClaimWindow(time.Hour)})
	run := f.start(t, "work", retrying())
	f.attempts(t, run, 2)
	release()
	eventually(t, func() bool {
		state, err := f.locks.Lock(t.Context(), scope)
		return err == nil && len(state.Holders) == 1 && state.Holders[0].Priority == 0
	}, "it is kept for the next attempt")
	require.NoError(t, receive(t, f.emergency(t, &order), "the emergency"))
	require.Equal(t, []string{"emergency"}, order.all())
	f.isFree(t)
}

// hooked runs an activity whose hook begins, and returns when it may.
func (f farm) hooked(t *testing.T, grace time.Duration, order *notes) (began, cleaning chan struct{}, proceed func(), clean *atomic.Bool) {
	t.Helper()
	began, cleaning = make(chan struct{}, 1), make(chan struct{}, 1)
	gate := make(chan struct{})
	clean = &atomic.Bool{}
	lock := temporal.Lock{Requirement: requirement(), OnPreempted: temporal.PreemptedFail}
	lock.CleanupTimeout = grace
	lock.Cleanup = func(ctx context.Context) error {
		cleaning <- struct{}{}
		<-gate
		hold, _ := lockguard.FromContext(ctx)
		clean.Store(ctx.Err() == nil && hold.Check() == nil)
		order.add("cleanup")
		return nil
	}
	f.worker(t, lock, map[string]any{"work": func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}})
	return began, cleaning, func() { close(gate) }, clean
}

func TestPreemptionDuringTheHooksOfACancelledActivityWaitsForThem(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	var order notes
	began, cleaning, proceed, clean := f.hooked(t, 30*time.Second, &order)
	run := f.start(t, "work", retrying())
	receive(t, began, "the work")
	require.NoError(t, f.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	receive(t, cleaning, "the cleanup")

	// when somebody more important wants the lock of an activity that cleans up
	done := f.emergency(t, &order)
	f.waits(t)
	f.heartbeats(t, run, 1) // long enough to be granted
	proceed()

	// then it comes afterwards, and the workflow is cancelled all the same
	require.NoError(t, receive(t, done, "the emergency"))
	require.Equal(t, []string{"cleanup", "emergency"}, order.all())
	require.True(t, clean.Load(), "the cleanup was not under the lock")
	_, err := result[any](t, run)
	require.True(t, sdk.IsCanceledError(err), "%v", err)
}

func TestHooksThatOverrunTheirGraceLoseTheLockToAForcefulRequest(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	var order notes
	began, cleaning, proceed, clean := f.hooked(t, 2*time.Second, &order)
	run := f.start(t, "work", retrying())
	receive(t, began, "the work")

	// when somebody takes the lock by force while the hook still runs
	done := f.emergency(t, &order, func(r *lockguard.Requirement) { r.Forceful = true })
	receive(t, cleaning, "the cleanup")
	require.NoError(t, receive(t, done, "the emergency"))
	proceed()

	// then the hook knows, and the workflow too
	_, err := result[any](t, run)
	require.Contains(t, []string{temporal.ErrTypeLockPreempted, temporal.ErrTypeLockLost}, errorType(t, err))
	require.False(t, clean.Load(), "the cleanup takes itself for being under the lock")
	require.Equal(t, []string{"emergency", "cleanup"}, order.all())
}

// careful is a workflow whose cleanup takes as long as it may.
func careful(ctx workflow.Context, lock lockguard.Requirement) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, HeartbeatTimeout: 5 * time.Second, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1},
	})
	return temporal.WithLock(ctx, lock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		return workflow.ExecuteActivity(ctx, "work").Get(ctx, nil)
	}, temporal.OnPreempt(func(ctx workflow.Context, _ temporal.Preemption) error {
		return workflow.ExecuteActivity(ctx, "undo").Get(ctx, nil)
	}))
}

func TestForcefulRequestCutsTheCleanupOfAWorkflowShort(t *testing.T) {
	t.Parallel()
	f, d := newFarm(t), newDownstream(t)
	f.workerOn(t, f.guard(t), nil, func(r registry) {
		r.RegisterWorkflow(careful)
		for _, name := range []string{"work", "undo"} {
			register(r, name, laborer{newMouth(d, name)}.linger)
		}
	})
	lock := requirement()
	lock.CleanupTimeout = 5 * time.Second
	run, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: devserver.Name(t), TaskQueue: f.queue}, careful, lock)
	require.NoError(t, err)
	first := d.awaits(t, "write", by("work"))

	// when somebody takes the lock by force, and does not wait for the cleanup
	require.NoError(t, f.guard(t).Do(t.Context(), lockguard.Requirement{Scope: scope, Priority: 7, Forceful: true}, func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		_, err := newMouth(d, "emergency").say(ctx, word{What: "write", Token: hold.Token()})
		return err
	}))

	// then the cleanup had begun under the token of the workflow, and both know that
	// they have to go
	require.Equal(t, "preempted", d.awaits(t, "told", by("work")).Cause)
	require.Equal(t, first.Token, d.awaits(t, "write", by("undo")).Token)
	d.awaits(t, "told", by("undo"))
	_, err = result[any](t, run)
	require.Contains(t, []string{temporal.ErrTypeLockPreempted, temporal.ErrTypeLockLost}, errorType(t, err))

	// and what they still write is refused
	d.open("late")
	for _, who := range []string{"work", "undo"} {
		d.awaits(t, "write", by(who), func(w word) bool { return w.Refused })
	}
	require.Equal(t, []bool{false, false, false}, []bool{d.said("write")[0].Refused, d.said("write")[1].Refused, d.said("write")[2].Refused})
}
