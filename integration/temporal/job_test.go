package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// instant is that of a schedule.
var instant = time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)

// jobWorkflows are workflows that jobs start.
var jobWorkflows = map[string]any{
	"Reports": func(ctx workflow.Context, what string) (map[string]string, error) {
		origin, ok, err := temporal.OriginOf(ctx)
		if err != nil || !ok {
			return nil, errors.Join(err, errors.New("it has no origin"))
		}
		token := strconv.FormatInt(int64(origin.Token), 10)
		return map[string]string{"job": origin.Job, "what": what, "scope": origin.Scope, "token": token}, nil
	},
	"Fails": func(workflow.Context) error { return sdk.NewNonRetryableApplicationError("disk full", "DiskFull", nil) },
	"Stays": func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) },
	"Refuses": func(ctx workflow.Context) error { // to go
		lasting, _ := workflow.NewDisconnectedContext(ctx)
		return workflow.Sleep(lasting, time.Hour)
	},
}

func (f *fixture) starts(name string, args ...any) *temporal.StartWorkflow {
	f.Helper()
	service, err := temporal.NewClient(temporal.Options{Address: temporals.Server(f).Addr(), Namespace: f.namespace})
	require.NoError(f, err)
	f.Cleanup(service.Close)
	return &temporal.StartWorkflow{Client: service, TaskQueue: f.queue, Workflow: name, Args: args, Wait: true}
}

// status waits until a workflow has a status.
func (f *fixture) status(id string, want enums.WorkflowExecutionStatus) {
	f.Helper()
	eventually(f, func() bool {
		described, err := f.temporal.DescribeWorkflowExecution(f.Context(), id, "")
		return err == nil && described.GetWorkflowExecutionInfo().GetStatus() == want
	}, "workflow "+id+" is "+want.String())
}

func TestJobStartsAWorkflowOncePerTick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work(setup{workflows: jobWorkflows})

	// given a job with a lock
	work := f.starts("Reports", "all")
	var token lockguard.Token
	job := jobs.Job{Name: "reports", Requirements: []lockguard.Requirement{{Scope: scope}}}
	job.Work = jobs.Func(func(ctx context.Context, run jobs.Run) error {
		hold, _ := lockguard.FromContext(ctx)
		token = hold.Token()
		return work.Run(ctx, run)
	})
	run := func() (line, result string) {
		output := jobs.NewTail(0)
		require.NoError(t, job.Do(t.Context(), f.guard(), jobs.Run{Scheduled: instant, Stdout: output}))
		line, result, _ = strings.Cut(output.String(), "\n")
		return line, result
	}

	// when it runs, then its workflow has seen the token
	line, result := run()
	var told map[string]string
	require.NoError(t, json.Unmarshal([]byte(result), &told), result)
	require.Equal(t, map[string]string{"job": "reports", "what": "all", "scope": scope, "token": token.String()}, told)

	// and it runs once, also without waiting
	again, same := run()
	require.Equal(t, strings.Replace(line, "is started", "had been started already", 1), again)
	require.Equal(t, result, same)
	work.Wait = false
	third, _ := run()
	require.Equal(t, again, third)

	// but an attempt after a failure is another run
	job = jobs.Job{Name: "fails", Work: f.starts("Fails")}
	runs := make(map[string]bool)
	for range 2 {
		err := job.Do(t.Context(), nil, jobs.Run{Scheduled: instant})
		failed, ok := errors.AsType[*temporal.WorkflowError](err)
		require.True(t, ok, "%v", err)
		require.ErrorContains(t, err, "DiskFull")
		runs[failed.RunID] = true
	}
	require.Len(t, runs, 2)

	// and a start that is not waited for ends at once
	work = f.starts("Stays")
	work.Wait, work.IDPrefix = false, "eu/"
	require.NoError(t, jobs.Job{Name: "starts", Work: work}.Do(t.Context(), nil, jobs.Run{Attempt: "by-hand"}))
	f.status("eu/starts-by-hand", enums.WORKFLOW_EXECUTION_STATUS_RUNNING)
}

func TestPreemptedJobCancelsItsWorkflowOrTerminatesIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]enums.WorkflowExecutionStatus{
		"Stays": enums.WORKFLOW_EXECUTION_STATUS_CANCELED, "Refuses": enums.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.work(setup{workflows: jobWorkflows})
			work := f.starts(name)
			if name == "Refuses" {
				work.Terminate, work.CancelTimeout = true, time.Second
			}
			g := f.guard()
			job := jobs.Job{Name: "job", Work: work, Requirements: []lockguard.Requirement{{Scope: scope, Terms: priority.Terms{CleanupTimeout: harness.Patience}}}}
			done := harness.Go(f, "the job", func() (any, error) { return nil, job.Do(t.Context(), g, jobs.Run{Scheduled: instant}) })
			f.status("job-2026-03-08T07:30:00Z", enums.WORKFLOW_EXECUTION_STATUS_RUNNING)
			f.requests(urgent).Granted()
			require.ErrorAs(t, done.Refused(), new(*lockguard.PreemptedError))
			f.status("job-2026-03-08T07:30:00Z", want)
		})
	}
}
