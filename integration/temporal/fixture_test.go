package temporal_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// scope is the lock of these tests.
const scope = "cluster/orders"

// A fixture is a task queue in a namespace of its own, a root on ZooKeeper, and the downstream that workers report to.
type fixture struct {
	*harness.Fixture
	*downstream
	temporal  client.Client
	namespace string
	queue     string
	locks     *lock.Client
	options   worker.Options // of the last worker
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOn(t, temporals.Server(t))
}

// newFixtureOn uses another Temporal server than the shared one, or another way to it.
func newFixtureOn(t *testing.T, server *devserver.Server, change ...func(*client.Options)) *fixture {
	t.Helper()
	namespace := server.Namespace(t)
	f := &fixture{
		Fixture: harness.New(t, zookeeper.Server(t)), downstream: newDownstream(t), queue: devserver.Name(t),
		namespace: namespace, temporal: server.ClientIn(t, namespace, change...),
	}
	f.locks = f.Client()
	return f
}

// guard is that of a process of its own.
func (f *fixture) guard(change ...func(*lock.Config)) *lockguard.Guard {
	f.Helper()
	g, err := lockguard.New(f.Client(change...))
	require.NoError(f, err)
	return g
}

// A setup says how a worker differs from one whose activities need no lock but labour and linger.
type setup struct {
	name       string           // in what it reports; "": "worker"
	guard      *lockguard.Guard // nil: one of its own
	lock       temporal.Lock    // of labour, linger and the activities; its scope defaults to that of these tests
	activities map[string]any
	plain      map[string]any // activities without a lock
	workflows  map[string]any
	plugin     []temporal.PluginOption
	options    worker.Options
}

// work runs a worker until the end of the test.
func (f *fixture) work(s setup) worker.Worker {
	f.Helper()
	if s.guard == nil {
		s.guard = f.guard()
	}
	s.lock.Scope = cmp.Or(s.lock.Scope, scope)
	for _, name := range []string{"labour", "linger"} {
		s.plugin = append(s.plugin, temporal.Declare(name, s.lock))
	}
	for name := range s.activities {
		s.plugin = append(s.plugin, temporal.Declare(name, s.lock))
	}
	plugin, err := temporal.NewPlugin(s.guard, s.plugin...)
	require.NoError(f, err)
	s.options.Plugins = append(s.options.Plugins, plugin)
	s.options.DeadlockDetectionTimeout = harness.Patience // a busy machine is slow, and a task that fails is in the history
	f.options = s.options
	w := worker.New(f.temporal, f.queue, f.options)
	f.reporter(cmp.Or(s.name, "worker")).register(w)
	for _, all := range []map[string]any{s.activities, s.plain} {
		for name, a := range all {
			w.RegisterActivityWithOptions(a, activity.RegisterOptions{Name: name})
		}
	}
	for name, x := range s.workflows {
		w.RegisterWorkflowWithOptions(x, workflow.RegisterOptions{Name: name})
	}
	require.NoError(f, w.Start())
	f.Cleanup(w.Stop)
	return w
}

// stops stops a worker in the background.
func (f *fixture) stops(w worker.Worker) *harness.Call[any] {
	return harness.Go(f, "the stop of a worker", func() (any, error) { w.Stop(); return nil, nil })
}

// single is a workflow that executes one activity.
func single(ctx workflow.Context, name string, options workflow.ActivityOptions) (any, error) {
	var result any
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), name).Get(ctx, &result)
	return result, err
}

func (f *fixture) execute(options client.StartWorkflowOptions, workflow any, args ...any) client.WorkflowRun {
	f.Helper()
	options.ID, options.TaskQueue = devserver.Name(f), f.queue
	run, err := f.temporal.ExecuteWorkflow(f.Context(), options, workflow, args...)
	require.NoError(f, err)
	return run
}

// start starts a workflow that executes one activity.
func (f *fixture) start(activity string, options workflow.ActivityOptions) client.WorkflowRun {
	f.Helper()
	return f.execute(client.StartWorkflowOptions{}, single, activity, options)
}

func (f *fixture) cancel(run client.WorkflowRun) {
	f.Helper()
	require.NoError(f, f.temporal.CancelWorkflow(f.Context(), run.GetID(), run.GetRunID()))
}

func (f *fixture) terminate(run client.WorkflowRun) {
	f.Helper()
	require.NoError(f, f.temporal.TerminateWorkflow(f.Context(), run.GetID(), run.GetRunID(), "over"))
}

// result waits for the end of a workflow.
func result[T any](f *fixture, run client.WorkflowRun) (v T, err error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 2*harness.Patience)
	defer cancel()
	err = run.Get(ctx, &v)
	require.NoError(f, ctx.Err(), "the workflow does not end")
	return v, err
}

// completed waits for the end of a workflow that succeeds.
func completed[T any](f *fixture, run client.WorkflowRun) T {
	f.Helper()
	v, err := result[T](f, run)
	require.NoError(f, err)
	return v
}

// failed waits for the end of a workflow that fails with an error of one of the types.
func (f *fixture) failed(run client.WorkflowRun, types ...string) error {
	f.Helper()
	_, err := result[any](f, run)
	var failure *sdk.ApplicationError
	require.ErrorAs(f, err, &failure)
	require.Contains(f, types, failure.Type(), "%v", err)
	return err
}

func (f *fixture) isCanceled(run client.WorkflowRun) {
	f.Helper()
	_, err := result[any](f, run)
	require.True(f, sdk.IsCanceledError(err), "%v", err)
}

// eventually waits for what a Temporal server may be asked for, which is busy enough.
func eventually(t testing.TB, met func() bool, what string) {
	t.Helper()
	harness.Eventually(t, func() bool {
		if !met() {
			<-time.After(20 * time.Millisecond)
			return met()
		}
		return true
	}, "%s", what)
}

func (f *fixture) history(run client.WorkflowRun) *history.History {
	f.Helper()
	return &history.History{Events: devserver.History(f, f.temporal, run.GetID(), run.GetRunID())}
}

// events are the types of all events, but for workflow tasks that a busy server or worker has let time out.
func (f *fixture) events(run client.WorkflowRun) (types []enums.EventType) {
	f.Helper()
	for _, e := range f.history(run).Events {
		if e.GetEventType() != enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT {
			types = append(types, e.GetEventType())
			continue
		}
		for last := len(types) - 1; types[last] == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED; last-- {
			types = types[:last]
		}
		types = types[:len(types)-1] // that it was scheduled
	}
	return types
}

func (f *fixture) has(run client.WorkflowRun, event enums.EventType) bool {
	f.Helper()
	return slices.ContainsFunc(f.history(run).Events, func(e *history.HistoryEvent) bool { return e.GetEventType() == event })
}

// holds has another client hold the lock, politely: it is not preempted.
func (f *fixture) holds(change ...func(*lockguard.Requirement)) (release func()) {
	f.Helper()
	r := lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 1000}, Owner: "nightly"}
	for _, change := range change {
		change(&r)
	}
	hold, err := f.guard().Acquire(f.Context(), r)
	require.NoError(f, err)
	return func() { require.NoError(f, hold.Release(context.WithoutCancel(f.Context()))) }
}

// requests has somebody else have the lock for as long as the function takes. The call returns the token.
func (f *fixture) requests(r lockguard.Requirement, do ...func()) *harness.Call[lockguard.Token] {
	f.Helper()
	r.Scope = cmp.Or(r.Scope, scope)
	g := f.guard()
	call := harness.Go(f, r.Owner+"'s request", func() (token lockguard.Token, err error) {
		return token, g.Do(f.Context(), r, func(ctx context.Context) error {
			hold, _ := lockguard.FromContext(ctx)
			token = hold.Token()
			for _, do := range do {
				do()
			}
			return nil
		})
	})
	f.Cleanup(func() { <-call.Done() }) // before the client is closed
	return call
}

// urgent is more important than what these tests do.
var urgent = lockguard.Requirement{Terms: priority.Terms{Priority: 90}, Owner: "emergency"}

// isFree waits until a client that does not preempt has the lock.
func (f *fixture) isFree() {
	f.Helper()
	f.requests(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}}).Granted()
}

// waiters waits until there are that many in the queue.
func (f *fixture) waiters(n int) {
	f.Helper()
	harness.Eventually(f, func() bool { return len(f.State(f.locks, scope).Waiters) == n }, "%d waiters", n)
}

// isKept waits until the lock is held by an activity that has yielded.
func (f *fixture) isKept() {
	f.Helper()
	harness.Eventually(f, func() bool {
		holders := f.State(f.locks, scope).Holders
		return len(holders) == 1 && holders[0].Priority == 0
	}, "it is kept for the next attempt")
}

// pending returns what the server knows of the only activity of a workflow that has not ended; false: there is none.
func (f *fixture) pending(run client.WorkflowRun) (a pendingActivity, ok bool) {
	f.Helper()
	w, err := f.temporal.DescribeWorkflowExecution(f.Context(), run.GetID(), "")
	if err != nil || len(w.GetPendingActivities()) != 1 {
		return a, false
	}
	p := w.GetPendingActivities()[0]
	return pendingActivity{p.GetAttempt(), p.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED, p.GetLastHeartbeatTime().AsTime()}, true
}

type pendingActivity struct {
	attempt   int32
	started   bool
	heartbeat time.Time
}

// attempts waits until the activity of a workflow is attempted for the nth time.
func (f *fixture) attempts(run client.WorkflowRun, n int32) {
	f.Helper()
	eventually(f, func() bool { a, ok := f.pending(run); return ok && a.attempt >= n }, "attempts")
}

// started waits until a worker has begun with an attempt, at least the nth.
func (f *fixture) started(run client.WorkflowRun, n int32) {
	f.Helper()
	eventually(f, func() bool { a, ok := f.pending(run); return ok && a.started && a.attempt >= n }, "the activity is started")
}

// heartbeats waits for that many heartbeats after the last one.
func (f *fixture) heartbeats(run client.WorkflowRun, n int) {
	f.Helper()
	var last time.Time
	eventually(f, func() bool {
		if a, ok := f.pending(run); ok && a.heartbeat.After(last) {
			last = a.heartbeat
			n--
		}
		return n < 0
	}, "heartbeats")
}

// retrying are options of an activity that is attempted again and again, as soon as its worker is known to be gone.
func retrying(change ...func(*workflow.ActivityOptions)) workflow.ActivityOptions {
	o := workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, HeartbeatTimeout: heartbeat,
		RetryPolicy: &sdk.RetryPolicy{InitialInterval: 100 * time.Millisecond},
	}
	for _, change := range change {
		change(&o)
	}
	return o
}

// heartbeat is a timeout that suffices on a busy machine: a worker reports when four fifths of it are over.
const heartbeat = 5 * time.Second

// steady is retrying for activities whose worker lives: no machine is so busy that their heartbeats are too late.
func steady(o *workflow.ActivityOptions) { o.HeartbeatTimeout = time.Minute }

// once is retrying with one attempt.
func once(o *workflow.ActivityOptions) { o.RetryPolicy.MaximumAttempts = 1 }

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
	return slices.Clone(n.lines)
}
