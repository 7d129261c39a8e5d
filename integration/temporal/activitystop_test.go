package temporal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// slowly are options whose own retry policy would make a test fail.
func slowly() workflow.ActivityOptions {
	return retrying(func(o *workflow.ActivityOptions) { o.RetryPolicy.InitialInterval = time.Hour })
}

func TestWorkerThatDrainsLetsLockedActivitiesEnd(t *testing.T) {
	f := newFarm(t)
	began, proceed := make(chan struct{}), make(chan struct{})
	var shaken atomic.Bool
	work := func(ctx context.Context) (int32, error) {
		close(began)
		stopping := activity.GetWorkerStopChannel(ctx)
		<-stopping
		<-proceed
		hold, _ := lockguard.FromContext(ctx)
		shaken.Store(errors.Join(ctx.Err(), hold.Check()) != nil)
		return activity.GetInfo(ctx).Attempt, nil
	}
	w := f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": work})
	run := f.start(t, "work", slowly())
	receive(t, began, "the work")
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.Stop() }()
	close(proceed)
	receive(t, stopped, "the worker")
	f.isFree(t)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": work}) // for the workflow
	var attempt int32
	require.NoError(t, run.Get(soon(t), &attempt))
	require.EqualValues(t, 1, attempt)
	require.False(t, shaken.Load())
}

func TestWorkerThatStopsHandsOverItsActivities(t *testing.T) {
	for name, policy := range map[string]temporal.StopPolicy{"after the time to drain": temporal.StopDrain, "at once": temporal.StopYield} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t)
			began, causes := make(chan struct{}, 10), make(chan error, 10)
			work := func(ctx context.Context) (int32, error) {
				if attempt := activity.GetInfo(ctx).Attempt; attempt > 1 {
					return attempt, nil
				}
				began <- struct{}{}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return 0, ctx.Err()
			}
			var cleaned atomic.Bool
			lock := temporal.Lock{Requirement: requirement()}
			lock.CleanupTimeout = 10 * time.Second
			lock.Cleanup = func(ctx context.Context) error {
				hold, _ := lockguard.FromContext(ctx)
				cleaned.Store(ctx.Err() == nil && hold.Check() == nil)
				return nil
			}
			options := []temporal.PluginOption{temporal.WithStopPolicy(policy), temporal.WithStopTimeout(2 * patience)}
			if policy == temporal.StopDrain {
				lock.CleanupTimeout, options = time.Second, append(options, temporal.WithStopTimeout(time.Second))
			}
			w := f.workerWith(t, lock, map[string]any{"work": work}, options)
			run := f.start(t, "work", slowly())
			receive(t, began, "the work")
			stopped := make(chan struct{})
			go func() { defer close(stopped); w.Stop() }()
			receive(t, stopped, "the worker")
			require.True(t, cleaned.Load(), "the worker has stopped before the cleanup was done")
			require.ErrorIs(t, receive(t, causes, "the cause"), worker.ErrWorkerShutdown)
			f.isFree(t)

			// then another worker goes on at once, whatever the retry policy
			f.worker(t, lock, map[string]any{"work": work})
			var attempt int32
			require.NoError(t, run.Get(soon(t), &attempt))
			require.EqualValues(t, 2, attempt)
		})
	}
}

func TestWorkerThatStopsHandsOverThePlacesOfItsActivities(t *testing.T) {
	for _, busy := range []temporal.Busy{temporal.BusyWait, temporal.BusyHybrid} {
		t.Run(busy.String(), func(t *testing.T) {
			f := newFarm(t)
			release := f.hold(t)
			var order notes
			work := func() error { order.add("activity"); return nil }
			lock := temporal.Lock{Requirement: requirement(), OnBusy: busy}
			if busy == temporal.BusyHybrid {
				lock.InSlotWait = time.Minute
			}

			// given an activity that waits, and somebody behind it
			first := f.worker(t, lock, map[string]any{"work": work})
			run := f.start(t, "work", slowly())
			f.waits(t)
			id := f.waiterIDs(t)[0]
			later, rival := make(chan error, 1), f.guard(t)
			go func() {
				later <- rival.Do(t.Context(), requirement(), func(context.Context) error { order.add("later"); return nil })
			}()
			f.waiters(t, 2)

			// when its worker stops, and another one is there
			f.worker(t, lock, map[string]any{"work": work})
			stopped := make(chan struct{})
			go func() { defer close(stopped); first.Stop() }()
			f.attempts(t, run, 2)
			require.Equal(t, id, f.waiterIDs(t)[0])
			release()

			// then the activity has its turn
			require.NoError(t, run.Get(soon(t), nil))
			require.NoError(t, receive(t, later, "the one behind it"))
			require.Equal(t, []string{"activity", "later"}, order.all())
			receive(t, stopped, "the first worker")
		})
	}
}

func TestZombieAttemptIsToldByTheWatchdogAndItsTokenIsOld(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	server := temporals.Server(t)
	proxy := netfault.New(t, server.Addr())
	type ended struct {
		cause error
		token lockguard.Token
		at    time.Time
	}
	began, zombies, took := make(chan struct{}, 1), make(chan ended, 1), make(chan lockguard.Token, 10)
	lock := temporal.Lock{Requirement: requirement()}
	lock.CleanupTimeout = 10 * time.Second

	// given an attempt whose worker reaches ZooKeeper, and Temporal no more
	cut := f
	cut.client = server.ClientIn(t, f.namespace, func(o *client.Options) { o.HostPort = proxy.Addr() })
	cut.workerWith(t, lock, map[string]any{"work": func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		hold, _ := lockguard.FromContext(ctx)
		zombies <- ended{context.Cause(ctx), hold.Token(), time.Now()}
		return ctx.Err()
	}}, []temporal.PluginOption{temporal.WithStopTimeout(time.Second)})
	run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = 2 * time.Second }))
	receive(t, began, "the first attempt")
	require.NoError(t, proxy.Blackhole())
	f.worker(t, lock, map[string]any{"work": func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		took <- hold.Token()
		return nil
	}})

	// then it ends by itself, and another one has the lock, with a larger token
	zombie := receive(t, zombies, "the zombie")
	var superseded *temporal.SupersededError
	require.ErrorAs(t, zombie.cause, &superseded)
	require.Greater(t, receive(t, took, "the next attempt"), zombie.token)
	require.NoError(t, run.Get(soon(t), nil))
	require.NoError(t, proxy.Pass())
}

func TestRunningActivityOfATerminatedWorkflowEnds(t *testing.T) {
	f := newFarm(t)
	began, causes := make(chan struct{}), make(chan error, 1)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}})
	run := f.start(t, "work", retrying())
	receive(t, began, "the work")
	require.NoError(t, f.client.TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "over"))
	require.Regexp(t, "workflow execution already completed|shut down: canceled$", receive(t, causes, "the cause").Error()) // the latter where servers push it
	f.isFree(t)
}

func TestPlaceOfAnActivityThatIsGoneIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	defer f.hold(t)()
	lock := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry, RetryDelay: time.Hour}
	f.worker(t, lock, map[string]any{"work": func() error { return nil }})
	run := f.start(t, "work", retrying())
	f.attempts(t, run, 2)
	f.waits(t)
	require.NoError(t, f.client.TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "over"))
	f.waiters(t, 0)
}

func TestLockThatNoAttemptClaimsIsGivenAway(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	lock := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry, RetryDelay: time.Hour}
	f.workerWith(t, lock, map[string]any{"work": func() error { return nil }}, []temporal.PluginOption{temporal.WithClaimWindow(2 * time.Second)})
	run := f.start(t, "work", retrying())
	f.attempts(t, run, 2)
	release()
	eventually(t, func() bool {
		state, err := f.locks.Lock(t.Context(), scope)
		return err == nil && len(state.Holders) == 1 && state.Holders[0].Priority == 0
	}, "it is kept for the next attempt")
	f.isFree(t)
}

func TestWorkersKeepNoMorePlacesThanTheyMay(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	lock := temporal.Lock{Requirement: requirement(), InSlotWait: time.Millisecond}
	f.workerWith(t, lock, map[string]any{"work": func(ctx context.Context) (int32, error) { return activity.GetInfo(ctx).Attempt, nil }},
		[]temporal.PluginOption{temporal.WithMaxTickets(0)})
	run := f.start(t, "work", retrying())
	f.waits(t)
	f.heartbeats(t, run, 2) // long after it would have yielded
	release()
	var attempt int32
	require.NoError(t, run.Get(soon(t), &attempt))
	require.EqualValues(t, 1, attempt)
}

func TestPriorityOfAnActivityIsThatOfItsLock(t *testing.T) {
	f := newFarm(t)
	priority := func(ctx context.Context) (int, error) {
		hold, _ := lockguard.FromContext(ctx)
		return int(hold.Info().Requirement.Priority), nil
	}
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": priority})
	for key, want := range map[int]int{0: 0, 2: 30} {
		var got int
		run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.Priority = sdk.Priority{PriorityKey: key} }))
		require.NoError(t, run.Get(soon(t), &got))
		require.Equal(t, want, got)
	}
}
