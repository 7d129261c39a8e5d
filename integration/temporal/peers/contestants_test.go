package peers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A contestant lets workflows have a resource one after the other.
type contestant struct {
	name string

	// under runs body while it has the resource.
	under func(l *lane, ctx workflow.Context, resource string, body func(workflow.Context) error) error

	// enter prepares the worker; nil: nothing to prepare.
	enter func(t testing.TB, l *lane, options *worker.Options)

	// others registers the workflows that it needs beside the caller; nil: none.
	others func(l *lane, w worker.Registry)

	free bool // it excludes no other
}

func contestants() []contestant {
	return []contestant{
		{name: "nothing", under: plainly, free: true},
		{name: "mutex workflow", under: (*lane).withMutex, others: registerMutex},
		{name: "permit child", under: (*lane).withPermit, others: registerPermit},
		{name: "activity lock", under: plainly, enter: withActivityLock},
		{name: "workflow lock", under: (*lane).withLock, enter: withPlugin},
	}
}

func plainly(_ *lane, ctx workflow.Context, _ string, body func(workflow.Context) error) error {
	return body(ctx)
}

// withActivityLock is all that there is to the activity lock: the workflow does
// not know of it.
func withActivityLock(t testing.TB, l *lane, options *worker.Options) {
	t.Helper()
	options.Interceptors = append(options.Interceptors, &stopwatch{lane: l}) // around the plugin's
	install(t, options, temporal.Declare("Touch", temporal.Lock{
		Requirement: lockguard.Requirement{Scope: "peers/{{.}}"},
		OnBusy:      temporal.BusyWait,
	}))
}

func withPlugin(t testing.TB, _ *lane, options *worker.Options) {
	t.Helper()
	install(t, options)
}

func install(t testing.TB, options *worker.Options, of ...temporal.PluginOption) {
	t.Helper()
	plugin, err := temporal.NewPlugin(guardAt(t, testbed.Root(t)), of...)
	require.NoError(t, err)
	options.Plugins = append(options.Plugins, plugin)
}

// withLock holds the lock for a part of the workflow.
func (l *lane) withLock(ctx workflow.Context, resource string, body func(workflow.Context) error) error {
	return temporal.WithLock(ctx, lockguard.Requirement{Scope: "peers/" + resource}, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		return body(ctx)
	})
}

// A lane is a contestant on a worker of its own, in a namespace of its own.
type lane struct {
	contestant
	client client.Client
	queue  string

	inside atomic.Int32 // how many touch the resource
	linger atomic.Int64 // how long they do, for others to be seen there

	mu     sync.Mutex
	others map[workflow.Execution]bool // the workflows beside the callers
	failed int                         // tries to get the permit
	around []time.Duration             // what the lock has taken of the attempts
	body   time.Duration               // of the attempt that was last
}

func (c contestant) start(t testing.TB) *lane {
	t.Helper()
	l := &lane{contestant: c, client: temporals.Server(t).Client(t), queue: devserver.Name(t), others: make(map[workflow.Execution]bool)}
	var options worker.Options
	if c.enter != nil {
		c.enter(t, l, &options)
	}
	w := worker.New(l.client, l.queue, options)
	w.RegisterWorkflowWithOptions(l.call, workflow.RegisterOptions{Name: "Caller"})
	w.RegisterActivityWithOptions(l.touch, activity.RegisterOptions{Name: "Touch"})
	if c.others != nil {
		c.others(l, w)
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return l
}

// call is the workflow: it touches the resource as often as told, each time
// under the lock.
func (l *lane) call(ctx workflow.Context, resource string, locks int) error {
	for range locks {
		err := l.under(l, ctx, resource, func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: 10 * time.Second})
			return workflow.ExecuteActivity(ctx, "Touch", resource).Get(ctx, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// touch fails when it is not alone.
func (l *lane) touch(ctx context.Context, resource string) error {
	begin := time.Now()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.body = time.Since(begin)
	}()
	defer l.inside.Add(-1)
	if n := l.inside.Add(1); n > 1 && !l.free {
		return sdk.NewNonRetryableApplicationError(fmt.Sprintf("%d touch %s at once", n, resource), "Overlap", nil)
	}
	linger := time.Duration(l.linger.Load())
	if linger == 0 {
		return nil
	}
	select {
	case <-time.After(linger):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beside notes a workflow that runs for a lock. Replays note it again.
func (l *lane) beside(ctx workflow.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others[workflow.GetInfo(ctx).WorkflowExecution] = true
}

// stopwatch sees what is around the body of an attempt: the lock.
type stopwatch struct {
	interceptor.WorkerInterceptorBase
	lane *lane
}

func (s *stopwatch) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &watched{lane: s.lane}
	i.Next = next
	return i
}

type watched struct {
	interceptor.ActivityInboundInterceptorBase
	lane *lane
}

func (w *watched) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	begin := time.Now()
	result, err := w.Next.ExecuteActivity(ctx, in)
	w.lane.mu.Lock()
	defer w.lane.mu.Unlock()
	w.lane.around = append(w.lane.around, time.Since(begin)-w.lane.body)
	return result, err
}
