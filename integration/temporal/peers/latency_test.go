package peers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
)

const (
	preemptions = 100
	cancels     = 20
)

// BenchmarkEviction: from the request of somebody more important to the
// cancelled context of the activity, and the same with the means of Temporal: the
// workflow is cancelled, and the activity, which heartbeats ten times a second,
// learns of it when the SDK passes a heartbeat on.
func BenchmarkEviction(b *testing.B) {
	for _, heartbeat := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute} {
		b.Run(fmt.Sprintf("preemption/%s", heartbeat), func(b *testing.B) {
			for b.Loop() {
				tell(b, preempt(b, heartbeat))
			}
		})
		b.Run(fmt.Sprintf("cancel/%s", heartbeat), func(b *testing.B) {
			for b.Loop() {
				tell(b, cancel(b, heartbeat))
			}
		})
	}
}

// tell reports how long it took until an activity knew that it has to go.
func tell(b *testing.B, samples []time.Duration) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(share(samples, 50).Microseconds())/1e3, "p50-ms")
	b.ReportMetric(float64(share(samples, 99).Microseconds())/1e3, "p99-ms")
}

func preempt(t testing.TB, heartbeat time.Duration) (samples []time.Duration) {
	t.Helper()
	root := testbed.Root(t)
	holders, urgent := guardAt(t, root), guardAt(t, root)
	const scope = "peers/evicted"
	plugin, err := temporal.NewPlugin(holders, temporal.Declare("Stay", temporal.Lock{
		Requirement: lockguard.Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: 10 * time.Second}},
		OnPreempted: temporal.PreemptedFail,
	}))
	require.NoError(t, err)
	s := startStayers(t, worker.Options{Plugins: []worker.Plugin{plugin}})
	for i := range preemptions {
		run := s.execute(t, heartbeat, fmt.Sprint(i))
		harness.Receive(t, s.started, "an activity")
		asked := time.Now()
		require.NoError(t, urgent.Do(t.Context(), lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 100}}, func(context.Context) error { return nil }))
		samples = append(samples, harness.Receive(t, s.told, "its end").Sub(asked))
		require.Error(t, run.Get(t.Context(), nil))
	}
	return samples
}

// cancel spreads the cancels over the time for which a heartbeat is put off.
func cancel(t testing.TB, heartbeat time.Duration) (samples []time.Duration) {
	t.Helper()
	s := startStayers(t, worker.Options{})
	var runs []client.WorkflowRun
	for i := range cancels {
		runs = append(runs, s.execute(t, heartbeat, fmt.Sprint(i)))
		harness.Receive(t, s.started, "an activity")
	}
	asked := make(map[string]time.Time)
	tick := time.NewTicker(heartbeat * 8 / 10 / cancels)
	defer tick.Stop()
	for _, run := range runs {
		<-tick.C
		asked[run.GetID()] = time.Now()
		require.NoError(t, s.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	}
	for _, run := range runs {
		require.Error(t, run.Get(t.Context(), nil))
		s.mu.Lock()
		samples = append(samples, s.ended[run.GetID()].Sub(asked[run.GetID()]))
		s.mu.Unlock()
	}
	return samples
}

// stayers are activities that stay until they are cancelled.
type stayers struct {
	client.Client
	queue   string
	started chan struct{}
	told    chan time.Time

	mu    sync.Mutex
	ended map[string]time.Time // by the id of the workflow
}

func startStayers(t testing.TB, options worker.Options) *stayers {
	t.Helper()
	s := &stayers{
		Client: temporals.Server(t).Client(t), queue: devserver.Name(t), ended: make(map[string]time.Time),
		started: make(chan struct{}, max(preemptions, cancels)), told: make(chan time.Time, max(preemptions, cancels)),
	}
	w := worker.New(s.Client, s.queue, options)
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, heartbeat time.Duration) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour, HeartbeatTimeout: heartbeat, WaitForCancellation: true,
			RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, "Stay").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Stays"})
	w.RegisterActivityWithOptions(s.stay, activity.RegisterOptions{Name: "Stay"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return s
}

func (s *stayers) execute(t testing.TB, heartbeat time.Duration, name string) client.WorkflowRun {
	t.Helper()
	run, err := s.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: s.queue + name, TaskQueue: s.queue}, "Stays", heartbeat)
	require.NoError(t, err)
	return run
}

func (s *stayers) stay(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	s.started <- struct{}{}
	for {
		select {
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		case <-ctx.Done():
			now := time.Now()
			s.mu.Lock()
			s.ended[activity.GetInfo(ctx).WorkflowExecution.ID] = now
			s.mu.Unlock()
			s.told <- now
			return ctx.Err()
		}
	}
}

func guardAt(t testing.TB, root string) *lockguard.Guard {
	t.Helper()
	guard, err := lockguard.New(harness.NewClient(t, lock.Config{Servers: []string{zookeeper.Server(t).Addr()}, Root: root}))
	require.NoError(t, err)
	return guard
}
