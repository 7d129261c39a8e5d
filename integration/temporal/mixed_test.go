package temporal_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// cron runs a job of our own scheduler each second, until the end of the test.
func (f farm) cron(t *testing.T, job jobs.Job) {
	t.Helper()
	locks, err := recipes.NewClient(recipes.Config{Servers: []string{zookeeper.Server(t).Addr()}, Chroot: f.root})
	require.NoError(t, err)
	g, err := lockguard.New(locks)
	require.NoError(t, err)
	s, err := scheduler.New(scheduler.Config{Guard: g, Ledger: locks.TickLedger(""), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	job.Schedule = "@every 1s"
	require.NoError(t, s.Add(job))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, receive(t, done, "the end of the scheduler"))
		require.NoError(t, locks.Close(context.Background()))
	})
}

// errand is a workflow that holds the lock itself while it has an activity labour.
func errand(ctx workflow.Context, lock lockguard.Requirement) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return temporal.WithLock(ctx, lock, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		return workflow.ExecuteActivity(ctx, "labour").Get(ctx, nil)
	})
}

// Three kinds of work that know nothing of each other: activities in one
// namespace, activities and workflows in another one, and a cron job.
func TestTwoNamespacesAndACronJobShareOneLock(t *testing.T) {
	t.Parallel()
	const rounds = 8
	d := newDownstream(t)
	lock := temporal.Lock{Requirement: requirement()}
	left := newFarm(t)
	left.workerOn(t, left.guard(t), lingering(lock), laborer{newMouth(d, "left")}.register)
	right := left
	server := temporals.Server(t)
	right.namespace, right.queue = server.Namespace(t), devserver.Name(t)
	right.client = server.ClientIn(t, right.namespace)
	require.NotEqual(t, left.namespace, right.namespace)
	right.workerOn(t, right.guard(t), lingering(lock), laborer{newMouth(d, "right")}.register)
	far := right
	far.queue = devserver.Name(t)
	far.workerOn(t, far.guard(t), nil, func(r registry) {
		r.RegisterWorkflow(errand)
		register(r, "labour", laborer{newMouth(d, "workflow")}.labour)
	})
	left.cron(t, jobs.Job{
		Name: "cron", Requirements: []lockguard.Requirement{requirement()},
		Work: jobs.Func(func(ctx context.Context, _ jobs.Run) error {
			hold, _ := lockguard.FromContext(ctx)
			for _, what := range []string{"enter", "write", "leave"} {
				if _, err := newMouth(d, "cron").say(ctx, word{What: what, Token: hold.Token()}); err != nil {
					return err
				}
			}
			return nil
		}),
	})

	// when all of them want the same lock
	var runs []client.WorkflowRun
	for range rounds {
		runs = append(runs, left.start(t, "labour", briskly()), right.start(t, "labour", briskly()))
	}
	for range rounds {
		run, err := far.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: far.queue}, errand, requirement())
		require.NoError(t, err)
		runs = append(runs, run)
	}
	for _, run := range runs {
		_, err := result[any](t, run)
		require.NoError(t, err)
	}
	turns := func(who string) (n int) {
		for _, w := range d.said("leave") {
			if w.Worker == who {
				n++
			}
		}
		return n
	}
	eventually(t, func() bool { return turns("cron") >= 3 }, "the cron job")

	// then they were inside one after the other
	for _, who := range []string{"left", "right", "workflow"} {
		require.Equal(t, rounds, turns(who), who)
	}
	d.oneAtATime(t, nil)
}
