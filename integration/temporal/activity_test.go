package temporal_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// scope is what the activities of these tests have in common.
const scope = "cluster/orders"

// A farm is workers of one task queue, and strangers who want the same locks.
type farm struct {
	client    client.Client
	namespace string
	queue     string
	root      string
	locks     *recipes.Client
}

func newFarm(t *testing.T) farm {
	t.Helper()
	root := testbed.Root(t)
	locks, err := recipes.NewClient(recipes.Config{Servers: []string{zookeeper.Server(t).Addr()}, Chroot: root})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locks.Close(context.Background())) })
	server := temporals.Server(t)
	namespace := server.Namespace(t)
	return farm{client: server.ClientIn(t, namespace), namespace: namespace, queue: devserver.Name(t), root: root, locks: locks}
}

// guard is a process of its own.
func (f farm) guard(t *testing.T) *lockguard.Guard {
	t.Helper()
	return guard(t, func(c *recipes.Config) { c.Chroot = f.root })
}

// worker runs activities by their names, under a lock unless they are plain.
func (f farm) worker(t *testing.T, lock temporal.Lock, activities map[string]any, change ...func(*worker.Options)) worker.Worker {
	t.Helper()
	return f.workerWith(t, lock, activities, nil, change...)
}

func (f farm) workerWith(t *testing.T, lock temporal.Lock, activities map[string]any, options []temporal.PluginOption, change ...func(*worker.Options)) worker.Worker {
	t.Helper()
	for name := range activities {
		if !strings.HasPrefix(name, "plain") {
			options = append(options, temporal.Declare(name, lock))
		}
	}
	plugin, err := temporal.NewPlugin(f.guard(t), options...)
	require.NoError(t, err)
	o := worker.Options{Plugins: []worker.Plugin{plugin}}
	for _, change := range change {
		change(&o)
	}
	w := worker.New(f.client, f.queue, o)
	w.RegisterWorkflow(single)
	for name, a := range activities {
		w.RegisterActivityWithOptions(a, activity.RegisterOptions{Name: name})
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return w
}

// single executes one activity.
func single(ctx workflow.Context, name string, options workflow.ActivityOptions) (any, error) {
	var result any
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), name).Get(ctx, &result)
	return result, err
}

func (f farm) start(t *testing.T, name string, options workflow.ActivityOptions) client.WorkflowRun {
	t.Helper()
	run, err := f.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: devserver.Name(t), TaskQueue: f.queue}, single, name, options)
	require.NoError(t, err)
	return run
}

func (f farm) events(t *testing.T, run client.WorkflowRun) []enums.EventType {
	t.Helper()
	var types []enums.EventType
	for _, e := range devserver.History(t, f.client, run.GetID(), run.GetRunID()) {
		types = append(types, e.GetEventType())
	}
	return types
}

// hold is a stranger who has the lock until the function is called.
func (f farm) hold(t *testing.T) (release func()) {
	t.Helper()
	hold, err := f.guard(t).Acquire(t.Context(), lockguard.Requirement{Scope: scope, Priority: 1000})
	require.NoError(t, err)
	return func() { require.NoError(t, hold.Release(context.WithoutCancel(t.Context()))) }
}

func requirement() lockguard.Requirement { return lockguard.Requirement{Scope: scope} }

func errorType(t *testing.T, err error) string {
	t.Helper()
	var failure *sdk.ApplicationError
	require.ErrorAs(t, err, &failure)
	return failure.Type()
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, 10*time.Millisecond, what)
}

// soon is a context that ends when a test has waited long enough.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "timeout", what)
		panic("unreachable")
	}
}

func TestLockedActivitiesOfTwoWorkersExcludeEachOtherAndAddNoEvents(t *testing.T) {
	f := newFarm(t)
	var last, running atomic.Int64
	increment := func(ctx context.Context) (bool, error) {
		hold, ok := lockguard.FromContext(ctx)
		if !ok || running.Add(1) != 1 {
			return false, errors.New("not alone")
		}
		defer running.Add(-1)
		token := int64(hold.Token())
		return last.Swap(token) < token, nil // a fenced downstream
	}
	lock := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyWait}
	for range 2 {
		f.worker(t, lock, map[string]any{"increment": increment})
	}
	once := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1}}
	var runs []client.WorkflowRun
	for range 20 {
		runs = append(runs, f.start(t, "increment", once))
	}
	for _, run := range runs {
		var fenced bool
		require.NoError(t, run.Get(soon(t), &fenced))
		require.True(t, fenced, "a token that is not larger than the one before")
		require.Equal(t, []enums.EventType{
			enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
			enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
			enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		}, f.events(t, run))
	}
}

func TestWaitingActivityIsCancelledWithItsWorkflow(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	f.worker(t, temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyWait}, map[string]any{"work": func() error { return nil }})
	run := f.start(t, "work", workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 3 * time.Second})
	f.waits(t)
	require.NoError(t, f.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	err := run.Get(soon(t), nil)
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	require.Contains(t, f.events(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_CANCELED)
	release()
	f.isFree(t)
}

func TestWaitingActivityOfATerminatedWorkflowGivesItsPlaceUp(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	f.worker(t, temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyWait}, map[string]any{"work": func() error { return nil }})
	run := f.start(t, "work", workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 3 * time.Second})
	f.waits(t)
	require.NoError(t, f.client.TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "over"))
	f.waiters(t, 0)
	release()
	f.isFree(t)
}

// waiters waits until there are that many in the queue.
func (f farm) waiters(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool {
		state, err := f.locks.Lock(t.Context(), scope)
		return err == nil && len(state.Waiters) == n
	}, "waiters")
}

func (f farm) waits(t *testing.T) { t.Helper(); f.waiters(t, 1) }

// isFree waits until a stranger gets the lock.
func (f farm) isFree(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, f.guard(t).Do(ctx, requirement(), func(context.Context) error { return nil }))
}

func TestPreemptedActivityIsToldAtOnceWhateverItsHeartbeatTimeout(t *testing.T) {
	f := newFarm(t)
	began, told := make(chan struct{}, 10), make(chan error, 10)
	var attempts atomic.Int32
	work := func(ctx context.Context) error {
		if attempts.Add(1) > 1 {
			return nil
		}
		began <- struct{}{}
		<-ctx.Done()
		told <- context.Cause(ctx)
		return ctx.Err()
	}
	lock := temporal.Lock{Requirement: requirement()}
	lock.CleanupTimeout = 10 * time.Second
	f.worker(t, lock, map[string]any{"work": work})
	run := f.start(t, "work", workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 10 * time.Second})
	receive(t, began, "the work")
	asked := time.Now()
	require.NoError(t, f.guard(t).Do(t.Context(), lockguard.Requirement{Scope: scope, Priority: 7, Owner: "emergency job"}, func(context.Context) error { return nil }))
	var preempted *lockguard.PreemptedError
	require.ErrorAs(t, receive(t, told, "the cause"), &preempted)
	t.Logf("told, cleaned up and handed over in %s", time.Since(asked))
	require.Equal(t, "emergency job", preempted.By)

	// then another attempt follows, and completes
	require.NoError(t, run.Get(soon(t), nil))
	require.EqualValues(t, 2, attempts.Load())
}

// retrying are options of an activity that is attempted again and again.
func retrying(change ...func(*workflow.ActivityOptions)) workflow.ActivityOptions {
	o := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 3 * time.Second, RetryPolicy: &sdk.RetryPolicy{InitialInterval: 100 * time.Millisecond}}
	for _, f := range change {
		f(&o)
	}
	return o
}

func TestActivityThatYieldsKeepsItsPlaceForTheNextAttemptOnAnotherWorker(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	var order notes
	work := func(where string) func(ctx context.Context) (int32, error) {
		return func(ctx context.Context) (int32, error) {
			order.add("activity on " + where)
			return activity.GetInfo(ctx).Attempt, nil
		}
	}
	lock := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry}

	// given an attempt that has yielded on one worker
	blocked, unblock := make(chan struct{}), make(chan struct{})
	defer close(unblock)
	block := func() error { close(blocked); <-unblock; return nil }
	f.worker(t, lock, map[string]any{"work": work("first"), "plain block": block}, func(o *worker.Options) {
		o.MaxConcurrentActivityExecutionSize = 1
	})
	run := f.start(t, "work", retrying())
	f.attempts(t, run, 2)
	f.waits(t)
	id := f.waiterIDs(t)

	// and which is busy with something else from now on
	f.start(t, "plain block", workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	receive(t, blocked, "the first worker is busy")
	require.Equal(t, id, f.waiterIDs(t), "there is one place, from the first attempt on")

	// and somebody who came later
	later, rival := make(chan error, 1), f.guard(t)
	go func() {
		later <- rival.Do(t.Context(), requirement(), func(context.Context) error { order.add("later"); return nil })
	}()
	f.waiters(t, 2)

	// when another worker is there, and the lock is given away
	f.worker(t, lock, map[string]any{"work": work("second")})
	release()

	// then the activity has it first
	var attempt int32
	require.NoError(t, run.Get(soon(t), &attempt))
	require.GreaterOrEqual(t, attempt, int32(2))
	require.NoError(t, receive(t, later, "the one who came later"))
	require.Equal(t, []string{"activity on second", "later"}, order.all())
	require.Len(t, f.events(t, run), 11, "no more than without a lock")
}

// notes are what several goroutines write down.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.lines...)
}

// attempts waits until the activity of a workflow is attempted for the nth time.
func (f farm) attempts(t *testing.T, run client.WorkflowRun, n int32) {
	t.Helper()
	eventually(t, func() bool {
		w, err := f.client.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
		return err == nil && len(w.GetPendingActivities()) == 1 && w.GetPendingActivities()[0].GetAttempt() >= n
	}, "attempts")
}

func (f farm) waiterIDs(t *testing.T) (ids []string) {
	t.Helper()
	state, err := f.locks.Lock(t.Context(), scope)
	require.NoError(t, err)
	for _, w := range state.Waiters {
		ids = append(ids, w.ID)
	}
	return ids
}

func TestLastAttemptDoesNotYield(t *testing.T) {
	for _, busy := range []temporal.Busy{temporal.BusyRetry, temporal.BusyHybrid} {
		t.Run(busy.String(), func(t *testing.T) {
			f := newFarm(t)
			release := f.hold(t)
			lock := temporal.Lock{Requirement: requirement(), OnBusy: busy}
			if busy == temporal.BusyHybrid {
				lock.InSlotWait = time.Millisecond
			}
			f.worker(t, lock, map[string]any{"work": func() error { return nil }})
			run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.RetryPolicy.MaximumAttempts = 1 }))
			f.waits(t)
			f.heartbeats(t, run, 2) // long after it would have yielded
			release()
			require.NoError(t, run.Get(soon(t), nil))
		})
	}
}

// heartbeats waits for that many heartbeats, from now on.
func (f farm) heartbeats(t *testing.T, run client.WorkflowRun, n int) {
	t.Helper()
	var last time.Time
	eventually(t, func() bool {
		w, err := f.client.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
		if err == nil && len(w.GetPendingActivities()) == 1 {
			if at := w.GetPendingActivities()[0].GetLastHeartbeatTime().AsTime(); at.After(last) {
				last = at
				n--
			}
		}
		return n < 0
	}, "heartbeats")
}

func TestWaitThatLeavesNoTimeEndsWithATypedFailureBeforeTheTimeout(t *testing.T) {
	f := newFarm(t)
	defer f.hold(t)()
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func() error { return nil }})
	run := f.start(t, "work", workflow.ActivityOptions{ScheduleToCloseTimeout: 3 * time.Second})
	err := run.Get(soon(t), nil)
	require.Equal(t, temporal.ErrTypeLockWaitTimeout, errorType(t, err))
	f.waiters(t, 0)
}

func TestProgressSurvivesWaitingAndYielding(t *testing.T) {
	f := newFarm(t)
	var attempts notes
	failed := make(chan struct{})
	work := func(ctx context.Context) (string, error) {
		progress := "none"
		if activity.HasHeartbeatDetails(ctx) {
			if err := activity.GetHeartbeatDetails(ctx, &progress); err != nil {
				return "", err
			}
		}
		attempts.add(progress)
		if progress == "none" {
			activity.RecordHeartbeat(ctx, "page 7")
			defer close(failed)
			return "", errors.New("try again")
		}
		return progress, nil
	}
	lock := temporal.Lock{Requirement: requirement(), InSlotWait: 1500 * time.Millisecond}
	f.worker(t, lock, map[string]any{"work": work})

	// given an attempt that has made progress, and failed
	run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.RetryPolicy.InitialInterval = 2 * time.Second }))
	receive(t, failed, "the first attempt")

	// when the next ones wait, and yield
	stranger := f.guard(t)
	hold, err := stranger.Acquire(t.Context(), requirement())
	require.NoError(t, err)
	f.attempts(t, run, 3)
	f.waits(t)
	f.heartbeats(t, run, 1)
	require.NoError(t, hold.Release(t.Context()))

	// then the one that runs has the progress, and no more
	var progress string
	require.NoError(t, run.Get(soon(t), &progress))
	require.Equal(t, "page 7", progress)
	require.Equal(t, []string{"none", "page 7"}, attempts.all())
}

func TestActivityWithoutProgressHasNoneAfterItHasYielded(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	work := func(ctx context.Context) (bool, error) { return activity.HasHeartbeatDetails(ctx), nil }
	f.worker(t, temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry}, map[string]any{"work": work})
	run := f.start(t, "work", retrying())
	f.attempts(t, run, 2)
	release()
	has := true
	require.NoError(t, run.Get(soon(t), &has))
	require.False(t, has)
}

func TestWorkflowWaitsForACleanupLongerThanTheHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(t *testing.T, f farm, run client.WorkflowRun){
		"cancel": func(t *testing.T, f farm, run client.WorkflowRun) {
			require.NoError(t, f.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
		},
		"preempt": func(t *testing.T, f farm, _ client.WorkflowRun) {
			require.NoError(t, f.guard(t).Do(t.Context(), lockguard.Requirement{Scope: scope, Priority: 7}, func(context.Context) error { return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t)
			began := make(chan struct{}, 10)
			var cleaned atomic.Bool
			work := func(ctx context.Context) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			lock := temporal.Lock{Requirement: requirement(), OnPreempted: temporal.PreemptedFail}
			lock.CleanupTimeout = 20 * time.Second
			lock.Cleanup = func(ctx context.Context) error {
				f.heartbeatsFor(t, 3500*time.Millisecond)
				cleaned.Store(ctx.Err() == nil)
				return nil
			}
			f.worker(t, lock, map[string]any{"work": work})
			run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) { o.HeartbeatTimeout = time.Second }))
			receive(t, began, "the work")
			interrupt(t, f, run)
			err := run.Get(soon(t), nil)
			require.True(t, cleaned.Load(), "the workflow went on before the cleanup was done")
			if name == "cancel" {
				require.True(t, sdk.IsCanceledError(err), "%v", err)
			} else {
				require.Equal(t, temporal.ErrTypeLockPreempted, errorType(t, err))
			}
			for _, e := range f.events(t, run) {
				require.NotEqual(t, enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, e)
			}
		})
	}
}

// heartbeatsFor lasts longer than a heartbeat timeout.
func (f farm) heartbeatsFor(_ *testing.T, d time.Duration) { <-time.After(d) }

func TestActivityMayRunAsLongAsItsTimeoutSaysFromTheGrantOn(t *testing.T) {
	f := newFarm(t)
	release := f.hold(t)
	lasted := make(chan time.Duration, 1)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) error {
		began := time.Now()
		<-ctx.Done()
		lasted <- time.Since(began)
		return ctx.Err()
	}})
	run := f.start(t, "work", retrying(func(o *workflow.ActivityOptions) {
		o.StartToCloseTimeout = 1500 * time.Millisecond
		o.RetryPolicy.MaximumAttempts = 1
	}))
	f.waits(t)
	f.heartbeats(t, run, 2) // it has waited for longer than it may run
	release()
	err := run.Get(soon(t), nil)
	require.Equal(t, temporal.ErrTypeRunTimeout, errorType(t, err))
	require.GreaterOrEqual(t, receive(t, lasted, "the work"), 1500*time.Millisecond)
}

func TestOneLockIsThatOfTwoNamespacesAndOfAJob(t *testing.T) {
	orders, billing := newFarm(t), newFarm(t)
	billing.root = orders.root
	var mu sync.Mutex
	var tokens []lockguard.Token
	increment := func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		if !mu.TryLock() {
			return sdk.NewNonRetryableApplicationError("not alone", "NotAlone", nil)
		}
		defer mu.Unlock()
		tokens = append(tokens, hold.Token())
		return nil
	}
	lock := temporal.Lock{Requirement: requirement()}
	var runs []client.WorkflowRun
	for _, f := range []farm{orders, billing} {
		f.worker(t, lock, map[string]any{"work": increment})
		for range 3 {
			runs = append(runs, f.start(t, "work", retrying()))
		}
	}
	job := jobs.Job{Name: "nightly", Requirements: []lockguard.Requirement{requirement()}, Work: jobs.Func(func(ctx context.Context, _ jobs.Run) error { return increment(ctx) })}
	stranger := orders.guard(t)
	for range 3 {
		require.NoError(t, job.Do(soon(t), stranger, jobs.Run{}))
	}
	for _, run := range runs {
		require.NoError(t, run.Get(soon(t), nil))
	}
	require.Len(t, tokens, 9)
	require.IsIncreasing(t, tokens)
}

func TestPausedActivityGivesItsLockBack(t *testing.T) {
	f := newFarm(t)
	began, causes := make(chan struct{}, 10), make(chan error, 10)
	f.worker(t, temporal.Lock{Requirement: requirement()}, map[string]any{"work": func(ctx context.Context) error {
		if activity.GetInfo(ctx).Attempt > 1 {
			return nil
		}
		began <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}})
	run := f.start(t, "work", retrying())
	receive(t, began, "the work")
	execution := &common.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()}
	_, err := f.client.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
		Namespace: f.namespace, Execution: execution, Activity: &workflowservice.PauseActivityRequest_Type{Type: "work"},
	})
	require.NoError(t, err)
	require.ErrorIs(t, receive(t, causes, "the cause"), activity.ErrActivityPaused)
	f.isFree(t)
	_, err = f.client.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: f.namespace, Execution: execution, Activity: &workflowservice.UnpauseActivityRequest_Type{Type: "work"},
	})
	require.NoError(t, err)
	require.NoError(t, run.Get(soon(t), nil))
}
