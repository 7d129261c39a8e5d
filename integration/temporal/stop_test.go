package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// slowly are options whose own retry policy would make a test fail.
func slowly() workflow.ActivityOptions {
	return retrying(func(o *workflow.ActivityOptions) {
		o.HeartbeatTimeout, o.RetryPolicy.InitialInterval = time.Minute, time.Hour
	})
}

func TestWorkerThatDrainsLetsLockedActivitiesEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	began := make(chan struct{})
	work := map[string]any{"work": func(ctx context.Context) (int32, error) {
		close(began)
		<-activity.GetWorkerStopChannel(ctx)
		hold, _ := lockguard.FromContext(ctx)
		if err := hold.Check(); err != nil {
			return 0, err
		}
		return activity.GetInfo(ctx).Attempt, ctx.Err()
	}}
	w := f.work(setup{activities: work})
	run := f.start("work", slowly())
	harness.Receive(t, began, "the work")
	f.stops(w).Granted()
	f.isFree()
	f.work(setup{activities: work}) // for the workflow
	require.EqualValues(t, 1, completed[int32](f, run))
}

func TestWorkerThatStopsHandsOverItsActivities(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]temporal.PluginOption{
		"after the time to drain": {temporal.WithStopPolicy(temporal.StopDrain), temporal.WithStopTimeout(time.Second)},
		"at once":                 {temporal.WithStopPolicy(temporal.StopYield), temporal.WithStopTimeout(2 * harness.Patience)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cleaned := make(chan error, 1)
			lock := temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Second}}}
			lock.Cleanup = func(ctx context.Context) error {
				hold, _ := lockguard.FromContext(ctx)
				cleaned <- hold.Check()
				return nil
			}
			w := f.work(setup{lock: lock, plugin: options})
			run := f.start("linger", slowly())
			first := f.awaits("write")
			f.stops(w).Granted()
			require.Len(t, cleaned, 1, "the worker has stopped before the cleanup was done")
			require.NoError(t, <-cleaned)
			require.Equal(t, "shutdown", f.awaits("told").Cause)
			f.isFree()

			// then another worker goes on at once, whatever the retry policy
			f.work(setup{lock: lock})
			require.Greater(t, completed[lockguard.Token](f, run), first.Token)
		})
	}
}

func TestWorkerThatStopsHandsOverThePlacesOfItsActivities(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]temporal.Lock{
		"wait":   {OnBusy: temporal.BusyWait},
		"hybrid": {OnBusy: temporal.BusyHybrid, InSlotWait: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// given an activity that waits, and somebody behind it
			f := newFixture(t)
			release := f.holds()
			var order notes
			s := setup{lock: lock, activities: map[string]any{"work": func() error { order.add("activity"); return nil }}}
			first := f.work(s)
			run := f.start("work", slowly())
			f.waiters(1)
			id := f.State(f.locks, scope).Waiters[0].ID
			later := f.requests(lockguard.Requirement{}, func() { order.add("later") })
			f.waiters(2)

			// when its worker stops, and another one is there
			f.work(s)
			stopped := f.stops(first)
			f.attempts(run, 2)
			require.Equal(t, id, f.State(f.locks, scope).Waiters[0].ID)
			release()

			// then the activity has its turn
			completed[any](f, run)
			later.Granted()
			require.Equal(t, []string{"activity", "later"}, order.all())
			stopped.Granted()
		})
	}
}

// The workflow may end before the other worker is needed.
func TestWorkerThatStopsHandsTheLockOverWithTheSameToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.work(setup{})

	// given a lock that a worker keeps, and somebody who waits for it
	run := f.migrate(migration{Steps: []string{"step"}, Waits: true, After: []string{"step"}})
	f.asleep(run)
	next := f.requests(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}})
	f.waiters(1)

	// when another worker comes, and that one stops
	f.work(setup{name: "other"})
	f.stops(w).Granted()
	f.goOn(run)

	// then the workflow ends without having noticed
	token := f.sameToken(2, completed[[]lockguard.Token](f, run))
	require.Equal(t, "other", f.reported("step")[1].Worker)
	require.Greater(t, next.Granted(), token)
}

// Nothing else runs beside this test: it is not parallel.
func TestWorkerThatHasStoppedLeavesNothing(t *testing.T) {
	temporals.Server(t)
	zookeeper.Server(t)
	before := goleak.IgnoreCurrent()
	t.Run("", func(t *testing.T) {
		f, g := newFixture(t), newFixture(t)
		t.Cleanup(func() { f.NoEphemerals(); g.NoEphemerals() }) // before the clients are closed that are not of workers

		// given a worker with an activity that holds, one that waits, one that has yielded, one whose workflow is gone,
		// and workflows that hold and wait
		yielding := temporal.Lock{Requirement: lockguard.Requirement{Scope: scope}, OnBusy: temporal.BusyRetry, RetryDelay: time.Hour}
		w := f.work(setup{
			lock:   temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, OnBusy: temporal.BusyWait},
			plugin: []temporal.PluginOption{temporal.Declare("yield", yielding), temporal.WithStopPolicy(temporal.StopYield)},
			plain:  map[string]any{"yield": nothing},
		})
		f.start("linger", retrying())
		f.awaits("write")
		f.start("labour", retrying())
		f.waiters(1)
		f.attempts(f.start("yield", retrying()), 2)
		gone := f.start("labour", retrying())
		f.waiters(3)
		f.terminate(gone)
		stays := g.work(setup{})
		g.asleep(g.migrate(migration{Steps: []string{"step"}, Waits: true}))
		g.started(g.migrate(migration{Steps: []string{"step"}}), 1)

		// when somebody preempts what can be preempted, and the workers stop
		f.requests(urgent).Granted()
		w.Stop()
		stays.Stop()
	})

	// then there are no holders and no waiters, and nothing runs on
	goleak.VerifyNone(t, before)
}
