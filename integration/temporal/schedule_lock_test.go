package temporal_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A ledger is what a lock protects: it knows who writes to it, and whether somebody
// else did at the same time, or with an older token.
type ledger struct {
	mu     sync.Mutex
	inside string
	last   lockguard.Token
	wrote  map[string]int
	wrong  []string
	news   chan struct{}
}

func newLedger() *ledger {
	return &ledger{wrote: make(map[string]int), news: make(chan struct{}, 1000)}
}

// write takes a moment, in which nobody else may.
func (l *ledger) write(ctx context.Context, who string) error {
	hold, ok := lockguard.FromContext(ctx)
	l.mu.Lock()
	switch {
	case !ok:
		l.wrong = append(l.wrong, who+" has no lock")
	case hold.Token() < l.last:
		l.wrong = append(l.wrong, who+" comes too late")
	default:
		l.last = hold.Token()
	}
	if l.inside != "" {
		l.wrong = append(l.wrong, who+" meets "+l.inside)
	}
	l.inside = who
	l.mu.Unlock()
	select {
	case <-time.After(30 * time.Millisecond):
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside = ""
	l.wrote[who]++
	l.news <- struct{}{}
	return nil
}

func (l *ledger) has(who ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range who {
		if l.wrote[w] < 3 {
			return false
		}
	}
	return true
}

// The same lock: a workflow that the server starts each second, and a job that a
// daemon of ours does.
func TestScheduledWorkflowTakesTheLockThatCronJobsTake(t *testing.T) {
	c, queue, root := dial(t), devserver.Name(t), testbed.Root(t)
	book := newLedger()
	var declared []lockguard.Requirement
	process := func(session time.Duration) (*recipes.Client, *lockguard.Guard) {
		locks, err := recipes.NewClient(recipes.Config{Servers: []string{zookeeper.Server(t).Addr()}, Root: root, SessionTimeout: session})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, locks.Close(context.Background())) })
		g, err := lockguard.New(locks)
		require.NoError(t, err)
		return locks, g
	}

	// given a worker with the plugin, for a workflow that says nothing of locks
	_, own := process(12 * time.Second)
	plugin, err := temporal.NewPlugin(own)
	require.NoError(t, err)
	w := worker.New(c, queue, worker.Options{Plugins: []worker.Plugin{plugin}})
	move := func(ctx workflow.Context) error {
		found, err := temporal.Declared(ctx)
		if err != nil {
			return err
		}
		book.mu.Lock()
		declared = found
		book.mu.Unlock()
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		if err := workflow.ExecuteActivity(ctx, "write", "workflow, first step").Get(ctx, nil); err != nil {
			return err
		}
		return workflow.ExecuteActivity(ctx, "write", "workflow, second step").Get(ctx, nil)
	}
	w.RegisterWorkflowWithOptions(move, workflow.RegisterOptions{Name: "Move"})
	w.RegisterActivityWithOptions(book.write, activity.RegisterOptions{Name: "write"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	// and a daemon with a job on the same lock
	locks, guard := process(4 * time.Second)
	daemon, err := scheduler.New(scheduler.Config{Guard: guard, Ledger: locks.TickLedger("")})
	require.NoError(t, err)
	require.NoError(t, daemon.Add(jobs.Job{
		Name: "cron", Schedule: "@every 1s", Requirements: []lockguard.Requirement{{Scope: "db", Priority: 20}},
		Work: jobs.Func(func(ctx context.Context, _ jobs.Run) error { return book.write(ctx, "cron") }),
	}))
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(running) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})

	// when the workflow is a schedule of the server
	keeper, err := temporal.NewSchedules(temporal.SchedulesConfig{Client: c, Root: root})
	require.NoError(t, err)
	all := schedules(t, "  move: {schedule: \"@every 1s\", locks: [{scope: db, priority: 20, cleanup_timeout: 5s}], run: {temporal: {workflow: Move, task_queue: "+queue+"}}}\n")
	_, err = keeper.Sync(t.Context(), all)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.ScheduleClient().GetHandle(context.Background(), all[0].ID(root)).Delete(context.Background()))
	})

	// then both run, and never at once
	h := &house{T: t}
	h.within("both have run", func() bool { return book.has("cron", "workflow, first step", "workflow, second step") })
	book.mu.Lock()
	require.Empty(t, book.wrong)
	require.Equal(t, "db", declared[0].Scope)
	require.Equal(t, "move", declared[0].Job)
	book.mu.Unlock()

	// and the priority of the lock is Temporal's
	found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowType = 'Move'"})
	require.NoError(t, err)
	id := found.GetExecutions()[0].GetExecution().GetWorkflowId()
	require.True(t, strings.HasPrefix(id, "move-20"), id)
	events := devserver.History(t, c, id, found.GetExecutions()[0].GetExecution().GetRunId())
	require.EqualValues(t, 3, events[0].GetWorkflowExecutionStartedEventAttributes().GetPriority().GetPriorityKey())

	// and its history replays with the plugin
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Plugins: []worker.Plugin{plugin}})
	require.NoError(t, err)
	replayer.RegisterWorkflowWithOptions(move, workflow.RegisterOptions{Name: "Move"})
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, &historypb.History{Events: events}))
}
