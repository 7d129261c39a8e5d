package temporaltesting

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/temporal"
)

// testTimeout is how long nothing may happen in an environment, and how long code of
// a workflow may run: more than the 3s and the 1s of the SDK, which a machine that is
// busy needs now and then.
const testTimeout = time.Minute

// NewActivityEnvironment returns an environment for activities whose worker has the
// plugin, with what the options declare. Its time is real time; it logs nothing.
//
// [Locks.SetUpActivities] installs the plugin in an environment that is there. SetWorkerOptions can
// be called once for each, and that is what both do. There is no server behind it: an attempt
// that fails is not made again, HeartbeatTimeout is 0, and activities yield
// with BusyRetry alone.
func (l *Locks) NewActivityEnvironment(options ...temporal.PluginOption) *testsuite.TestActivityEnvironment {
	l.t.Helper()
	env := quiet().NewTestActivityEnvironment()
	env.SetTestTimeout(testTimeout)
	l.SetUpActivities(env, worker.Options{}, options...)
	return env
}

// NewWorkflowEnvironment returns an environment for workflows whose worker has the
// plugin, with what the options declare. It logs nothing. Code of a workflow may run for a
// minute at a time, not for the SDK's second, before that is taken for a deadlock.
//
// In it temporal.WithLock has a real lock, which activities in scope join. Its clock is virtual, and stands
// still while a lock is on its way: a grant, a preemption or a loss takes no time there.
// So things are put on its clock as ever:
//
//	env.RegisterDelayedCallback(func() { locks.Preempt(lockguard.Requirement{Scope: "orders"}) }, 10*time.Minute)
//	env.RegisterDelayedCallback(rival.Release, time.Hour) // the lock is busy until then
//
// An AcquireTimeout of WithLock passes on that clock. Real time is what passes for
// everything that a Guard measures: leases, minimum runtimes, cleanup timeouts, MaxHold,
// and the waiting of activities that declare locks of their own, for which let
// [Locks.WhenWaiting] release the rival. A hook of OnPreempt that is to overrun its
// grace can be had with [Locks.Lose] within it.
//
// Activities that are mocked with values (OnActivity(…).Return(1, nil)) do not pass
// interceptors: they take no locks, join no holds, and During does not see them. Those
// that are mocked with functions do. Unlike in the SDK's environment alone, activities
// with WaitForCancellation, which all in scope of a lock have, get the cancellation
// and are waited for, as on a server.
func (l *Locks) NewWorkflowEnvironment(options ...temporal.PluginOption) *testsuite.TestWorkflowEnvironment {
	l.t.Helper()
	env := quiet().NewTestWorkflowEnvironment()
	env.SetTestTimeout(testTimeout)
	l.SetUpWorkflows(env, worker.Options{DeadlockDetectionTimeout: testTimeout}, options...)
	return env
}

// quiet is a suite whose environments do not log each of their steps.
func quiet() *testsuite.WorkflowTestSuite {
	suite := new(testsuite.WorkflowTestSuite)
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	return suite
}

// SetUpActivities installs the plugin in an environment that is there already, such
// as one of a suite, or that needs worker options of its own. It calls SetWorkerOptions, which
// can be done once.
func (l *Locks) SetUpActivities(
	env *testsuite.TestActivityEnvironment, o worker.Options, options ...temporal.PluginOption,
) {
	l.t.Helper()
	o.Plugins = append(slices.Clip(o.Plugins), l.Plugin(options...), &backdrop{locks: l})
	env.SetWorkerOptions(o)
}

// SetUpWorkflows does the same for workflows.
func (l *Locks) SetUpWorkflows(
	env *testsuite.TestWorkflowEnvironment, o worker.Options, options ...temporal.PluginOption,
) {
	l.t.Helper()
	s := newStage(l, env)
	o.Plugins = append([]worker.Plugin{s},
		append(slices.Clip(o.Plugins), l.Plugin(options...), &backdrop{locks: l, stage: s})...)
	env.SetWorkerOptions(o)
}

// A hook is what During calls.
type hook struct {
	activityType string
	f            func()
}

// During calls f each time that an activity of a type begins to run under its locks,
// before its own code; from here on. It is for what is to happen while the activity
// runs: the activity goes on when f has returned. Activities that are mocked with
// values do not run, those that are mocked with functions do.
func (l *Locks) During(activityType string, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hooks = append(l.hooks, hook{activityType, f})
}

func (l *Locks) during(activityType string) {
	l.mu.Lock()
	hooks := slices.Clone(l.hooks)
	l.mu.Unlock()
	for _, h := range hooks {
		if h.activityType == activityType {
			h.f()
		}
	}
}

// A backdrop is innermost: next to the activities, within their locks.
type backdrop struct {
	worker.PluginBase
	interceptor.WorkerInterceptorBase
	locks *Locks
	stage *stage // nil: of activities alone
}

// Name returns its name among plugins.
func (b *backdrop) Name() string { return "lockkeeper-testing-backdrop" }

// ConfigureWorker adds the interceptor.
func (b *backdrop) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append(slices.Clip(o.WorkerOptions.Interceptors), b)
	return nil
}

// InterceptActivity is called for each attempt.
func (b *backdrop) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &backdropActivity{
		ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, backdrop: b,
	}
}

type backdropActivity struct {
	interceptor.ActivityInboundInterceptorBase
	backdrop *backdrop
	outbound interceptor.ActivityOutboundInterceptor
}

// Init gets between the activity and the SDK.
func (a *backdropActivity) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	a.outbound = outbound
	return a.Next.Init(outbound)
}

// ExecuteActivity lets happen what is to.
func (a *backdropActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	a.backdrop.locks.during(a.outbound.GetInfo(ctx).ActivityType.Name)
	return a.Next.ExecuteActivity(ctx, in)
}

var (
	_ worker.Plugin                 = (*backdrop)(nil)
	_ interceptor.WorkerInterceptor = (*backdrop)(nil)
)
