package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// nothing is an activity.
func nothing(context.Context) error { return nil }

func attempt(ctx context.Context) (int32, error) { return activity.GetInfo(ctx).Attempt, nil }

func TestActivityThatWaitsLeavesTheQueueWhenItsWorkflowEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy temporal.Busy
		end  func(*fixture, client.WorkflowRun)
	}{
		"in its slot, cancelled":      {temporal.BusyWait, (*fixture).cancel},
		"in its slot, terminated":     {temporal.BusyWait, (*fixture).terminate},
		"after it yields, terminated": {temporal.BusyRetry, (*fixture).terminate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			release := f.holds()
			f.work(setup{lock: temporal.Lock{OnBusy: c.busy, RetryDelay: time.Hour}, activities: map[string]any{"work": nothing}})
			run := f.start("work", retrying())
			if c.busy == temporal.BusyRetry {
				f.attempts(run, 2)
			}
			f.waiters(1)
			c.end(f, run)
			f.waiters(0)
			if name == "in its slot, cancelled" {
				f.isCanceled(run)
				require.True(t, f.has(run, enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED))
			}
			release()
			f.isFree()
		})
	}
}

func TestActivityThatYieldsKeepsItsPlaceForTheNextAttemptOnAnotherWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.holds()
	var order notes
	work := func(where string) func(ctx context.Context) (int32, error) {
		return func(ctx context.Context) (int32, error) { order.add("activity on " + where); return attempt(ctx) }
	}
	lock := temporal.Lock{OnBusy: temporal.BusyRetry}

	// given an attempt that has yielded on one worker, which is busy with something else from now on
	blocked, unblock := make(chan struct{}), make(chan struct{})
	defer close(unblock)
	s := setup{lock: lock, activities: map[string]any{"work": work("first")}}
	s.plain = map[string]any{"block slot": func() error { close(blocked); <-unblock; return nil }}
	s.options.MaxConcurrentActivityExecutionSize = 1
	s.plugin = []temporal.PluginOption{temporal.WithMaxParked(0)} // an attempt that is parked there could run on
	f.work(s)
	run := f.start("work", retrying(steady))
	f.attempts(run, 2)
	f.waiters(1)
	id := f.State(f.locks, scope).Waiters[0].ID
	f.start("block slot", workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	harness.Receive(t, blocked, "the first worker is busy")
	require.Equal(t, id, f.State(f.locks, scope).Waiters[0].ID, "there is one place, from the first attempt on")

	// and somebody who came later
	later := f.requests(lockguard.Requirement{}, func() { order.add("later") })
	f.waiters(2)

	// when another worker is there, and the lock is given away
	f.work(setup{lock: lock, activities: map[string]any{"work": work("second")}})
	release()

	// then the activity has it first
	require.GreaterOrEqual(t, completed[int32](f, run), int32(2))
	later.Granted()
	require.Equal(t, []string{"activity on second", "later"}, order.all())
	require.Len(t, f.events(run), 11, "no more than without a lock")
}

func TestLockThatIsKeptForTheNextAttemptIsNotKeptForEver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window time.Duration
		next   lockguard.Requirement
	}{
		"no other claims it":              {2 * time.Second, lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}}},
		"somebody more important asks it": {time.Hour, urgent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			release := f.holds()
			f.work(setup{
				lock:       temporal.Lock{OnBusy: temporal.BusyRetry, RetryDelay: time.Hour},
				activities: map[string]any{"work": nothing}, plugin: []temporal.PluginOption{temporal.WithClaimWindow(c.window)},
			})
			f.attempts(f.start("work", retrying(steady)), 2)
			release()
			f.isKept()
			f.requests(c.next).Granted()
		})
	}
}

func TestWorkersKeepNoMorePlacesThanTheyMay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.holds()
	f.work(setup{
		lock:       temporal.Lock{InSlotWait: time.Millisecond},
		activities: map[string]any{"work": attempt}, plugin: []temporal.PluginOption{temporal.WithMaxTickets(0)},
	})
	run := f.start("work", retrying(steady))
	f.waiters(1)
	f.heartbeats(run, 2) // long after it would have yielded
	release()
	require.EqualValues(t, 1, completed[int32](f, run))
}

func TestWaitThatLeavesNoTimeEndsWithATypedFailureBeforeTheTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	defer f.holds()()
	f.work(setup{activities: map[string]any{"work": nothing}})
	run := f.start("work", workflow.ActivityOptions{ScheduleToCloseTimeout: 6 * time.Second})
	f.failed(run, temporal.ErrTypeLockWaitTimeout)
	f.waiters(0)
}

// There is none at first: the place in the queue that travels with it is not seen.
func TestProgressSurvivesWaitingYieldingAndAPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.holds()
	var progress notes
	running, fail := make(chan struct{}), make(chan struct{})
	work := func(ctx context.Context) error {
		page := "none"
		if activity.HasHeartbeatDetails(ctx) {
			if err := activity.GetHeartbeatDetails(ctx, &page); err != nil {
				return err
			}
		}
		progress.add(page)
		switch page {
		case "none":
			activity.RecordHeartbeat(ctx, "page 7")
			close(running)
			<-fail
			return errors.New("try again")
		case "page 7":
			activity.RecordHeartbeat(ctx, "page 8")
			panic("page 9")
		}
		return nil
	}
	f.work(setup{lock: temporal.Lock{OnBusy: temporal.BusyRetry}, activities: map[string]any{"work": work}})

	// given an activity that has yielded, then made progress, and failed
	run := f.start("work", retrying(steady))
	f.attempts(run, 2)
	release()
	harness.Receive(t, running, "the work")
	before, _ := f.pending(run)
	proceed := make(chan struct{})
	next := f.requests(lockguard.Requirement{}, func() { <-proceed })
	f.waiters(1)
	close(fail)

	// when it waits and yields again
	f.attempts(run, before.attempt+2)
	close(proceed)
	next.Granted()

	// then the attempt that runs has the progress, and so has the one after a panic
	completed[any](f, run)
	require.Equal(t, []string{"none", "page 7", "page 8"}, progress.all())
}

func TestWorkflowWaitsForACleanupLongerThanTheHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(f *fixture, run client.WorkflowRun) *harness.Call[lockguard.Token]{
		"cancel":  func(f *fixture, run client.WorkflowRun) *harness.Call[lockguard.Token] { f.cancel(run); return nil },
		"preempt": func(f *fixture, _ client.WorkflowRun) *harness.Call[lockguard.Token] { return f.requests(urgent) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cleaning, cleaned := make(chan struct{}), make(chan struct{})
			lock := temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}, OnPreempted: temporal.PreemptedFail}
			held := false
			lock.Cleanup = func(ctx context.Context) error {
				close(cleaning)
				<-cleaned
				hold, _ := lockguard.FromContext(ctx)
				held = ctx.Err() == nil && hold.Check() == nil
				return nil
			}
			f.work(setup{lock: lock})
			run := f.start("linger", retrying())
			f.awaits("write")

			// given one that cleans up for longer than the timeout, of which heartbeats come thrice
			next := interrupt(f, run)
			harness.Receive(t, cleaning, "the cleanup")
			f.heartbeats(run, 4)
			if next == nil {
				next = f.requests(urgent)
				f.waiters(1)
			}
			next.IsPending()
			close(cleaned)

			// then the workflow goes on, and the lock away, after it
			next.Granted()
			if name == "cancel" {
				f.isCanceled(run)
			} else {
				f.failed(run, temporal.ErrTypeLockPreempted)
			}
			require.True(t, held, "the cleanup was not under the lock")
			require.False(t, f.has(run, enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT))
		})
	}
}

func TestActivityMayRunAsLongAsItsTimeoutSaysFromTheGrantOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.holds()
	f.work(setup{})
	run := f.start("linger", retrying(once, func(o *workflow.ActivityOptions) { o.StartToCloseTimeout = time.Second }))
	f.waiters(1)
	f.heartbeats(run, 3) // it has waited for longer than it may run
	release()
	f.failed(run, temporal.ErrTypeRunTimeout)
	f.awaits("write")
}

func TestServerEndsARunningActivity(t *testing.T) {
	t.Parallel()
	t.Run("whose workflow is terminated", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.work(setup{})
		run := f.start("linger", retrying())
		f.awaits("write")
		f.terminate(run)
		require.Regexp(t, "superseded|shut down: canceled$", f.awaits("told").Cause) // the latter where servers push it
		f.isFree()
	})
	t.Run("that is paused", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.work(setup{})
		run := f.start("linger", retrying())
		f.awaits("write")
		execution := &common.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()}
		_, err := f.temporal.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
			Namespace: f.namespace, Execution: execution, Activity: &workflowservice.PauseActivityRequest_Type{Type: "linger"},
		})
		require.NoError(t, err)
		require.Equal(t, "paused", f.awaits("told").Cause)
		f.isFree()
		_, err = f.temporal.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
			Namespace: f.namespace, Execution: execution, Activity: &workflowservice.UnpauseActivityRequest_Type{Type: "linger"},
		})
		require.NoError(t, err)
		completed[any](f, run)
	})
}

func TestActivityThatIsCompletedLaterGivesItsLockBackAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := make(chan []byte, 10)
	f.work(setup{activities: map[string]any{"work": func(ctx context.Context) (string, error) {
		tokens <- activity.GetInfo(ctx).TaskToken
		return "", activity.ErrResultPending
	}}})

	// given one that has returned, when somebody completes it
	run := f.start("work", retrying(func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = time.Minute }))
	token := harness.Receive(t, tokens, "the work")
	f.isFree()
	require.NoError(t, f.temporal.CompleteActivity(t.Context(), token, "done", nil))
	require.Equal(t, "done", completed[string](f, run))

	// but one that has no heartbeat timeout of its own is over when that of the plugin is
	run = f.start("work", retrying(once, func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = 0 }))
	_, err := result[any](f, run)
	require.ErrorContains(t, err, "Heartbeat")
}
