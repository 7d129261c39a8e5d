package temporal_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// cron runs a job of our own scheduler each second, under the lock, until the end of the test.
func (f *fixture) cron(lock lockguard.Requirement) {
	f.Helper()
	locks, reporter := f.Client(), f.reporter("cron")
	g, err := lockguard.New(locks)
	require.NoError(f, err)
	s, err := scheduler.New(scheduler.Config{Guard: g, Ledger: locks.TickLedger(""), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	require.NoError(f, s.Add(jobs.Job{
		Name: "cron", Schedule: "@every 1s", Requirements: []lockguard.Requirement{lock},
		Work: jobs.Func(func(ctx context.Context, _ jobs.Run) error {
			hold, _ := lockguard.FromContext(ctx)
			for _, what := range []string{"enter", "write", "leave"} {
				if _, err := reporter.send(ctx, report{What: what, Token: hold.Token()}); err != nil {
					return err
				}
			}
			return nil
		}),
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := harness.Go(f, "the scheduler", func() (any, error) { return nil, s.Run(ctx) })
	f.Cleanup(func() { cancel(); done.Granted() })
}

// turns is how often a worker has left its critical section.
func (f *fixture) turns(who string) (n int) {
	for _, r := range f.reported("leave") {
		if r.Worker == who {
			n++
		}
	}
	return n
}

// done are the activities of a worker that have left their critical section. Temporal runs one again whose end it has not
// heard of.
func (f *fixture) done(who string) map[string]bool {
	keys := map[string]bool{}
	for _, r := range f.reported("leave") {
		if r.Worker == who {
			keys[r.Key] = true
		}
	}
	return keys
}

// Three kinds of work that know nothing of each other: activities in one namespace, activities and workflows in another
// one, and a cron job.
func TestTwoNamespacesAndACronJobShareOneLock(t *testing.T) {
	t.Parallel()
	const rounds = 4
	left, right := newFixture(t), newFixture(t)
	right.Root, right.downstream = left.Root, left.downstream
	require.NotEqual(t, left.namespace, right.namespace)
	left.work(setup{name: "left"})
	right.work(setup{name: "right"})
	left.cron(lockguard.Requirement{Scope: scope})

	// when all of them want the same lock
	var runs, others []client.WorkflowRun
	for range rounds {
		runs = append(runs, left.start("labour", retrying(steady)))
		others = append(others, right.start("labour", retrying(steady)), right.migrate(migration{Steps: []string{"labour"}}))
	}
	for _, run := range runs {
		completed[any](left, run)
	}
	for _, run := range others {
		completed[any](right, run)
	}
	harness.Eventually(t, func() bool { return left.turns("cron") >= 3 }, "the cron job runs")

	// then they were inside one after the other
	require.Len(t, left.done("left"), rounds)
	require.Len(t, left.done("right"), 2*rounds)
	left.oneAtATime()
}

// The same lock: a workflow that the server starts each second and that says nothing of locks, and a job of a daemon.
func TestScheduledWorkflowTakesTheLockThatCronJobsTake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	move := func(ctx workflow.Context) error {
		found, err := temporal.Declared(ctx)
		if err == nil && (len(found) != 1 || found[0].Scope != scope || found[0].Job != "move") {
			err = fmt.Errorf("it is declared: %+v", found)
		}
		if err != nil {
			return err
		}
		_, err = Migrate(ctx, migration{Unlocked: true, Steps: []string{"first", "second"}})
		return err
	}
	f.work(setup{workflows: map[string]any{"Move": move}, plain: map[string]any{
		"first": f.reporter("workflow").enter, "second": f.reporter("workflow").leave,
	}})
	f.cron(lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 20}})

	// when the workflow is a schedule of the server
	keeper, err := temporal.NewSchedules(temporal.SchedulesConfig{Client: f.temporal, Root: f.Root})
	require.NoError(t, err)
	all := schedules(t, "  move: {schedule: \"@every 1s\", locks: [{scope: "+scope+", priority: 20, cleanup_timeout: 5s}], "+
		"run: {temporal: {workflow: Move, task_queue: "+f.queue+"}}}\n")
	_, err = keeper.Sync(t.Context(), all)
	require.NoError(t, err)
	t.Cleanup(func() {
		handle := f.temporal.ScheduleClient().GetHandle(context.Background(), all[0].ID(f.Root))
		require.NoError(t, handle.Delete(context.Background()))
	})

	// then both run, and never at once
	harness.Eventually(t, func() bool { return f.turns("cron") >= 3 && f.turns("workflow") >= 3 }, "both run")
	f.oneAtATime()

	// and the priority of the lock is Temporal's
	var found *workflowservice.ListWorkflowExecutionsResponse
	harness.Eventually(t, func() bool { // Temporal lists a workflow a moment after its start
		var err error
		found, err = f.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: "WorkflowType = 'Move'",
		})
		require.NoError(t, err)
		return len(found.GetExecutions()) > 0
	}, "it is not listed")
	run := found.GetExecutions()[0].GetExecution()
	require.True(t, strings.HasPrefix(run.GetWorkflowId(), "move-20"), run)
	events := devserver.History(t, f.temporal, run.GetWorkflowId(), run.GetRunId())
	require.EqualValues(t, 3, events[0].GetWorkflowExecutionStartedEventAttributes().GetPriority().GetPriorityKey())
}
