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
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// instant is that of a schedule.
var instant = time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)

// TestJobsStartWorkflows shares one worker.
func TestJobsStartWorkflows(t *testing.T) {
	s := start(t)
	t.Run("WorkflowKnowsTheTokenOfItsJobsLock", s.knowsItsToken)
	t.Run("TickThatIsStartedTwiceRunsOnce", s.runsOnce)
	t.Run("AttemptAfterAFailureIsAnotherRun", s.isTriedAgain)
	t.Run("PreemptedJobCancelsItsWorkflow", s.isCancelled)
	t.Run("WorkflowThatDoesNotGoIsTerminatedInItsGrace", s.isTerminated)
	t.Run("StartThatIsNotWaitedForEndsAtOnce", s.isNotWaitedFor)
}

func (s service) knowsItsToken(t *testing.T) {
	// given a job with a lock
	work := s.work("Reports")
	work.Args = []any{"all"}
	job := jobs.Job{Name: "reports", Requirements: []lockguard.Requirement{{Scope: "cluster/orders"}}, Work: work}
	var token lockguard.Token
	job.Work = jobs.Func(func(ctx context.Context, run jobs.Run) error {
		hold, _ := lockguard.FromContext(ctx)
		token = hold.Token()
		return work.Run(ctx, run)
	})
	output := jobs.NewTail(0)

	// when it runs
	require.NoError(t, job.Do(t.Context(), guard(t), jobs.Run{Scheduled: instant, Stdout: output}))

	// then its workflow has seen the token
	_, result, _ := strings.Cut(output.String(), "\n")
	var told map[string]string
	require.NoError(t, json.Unmarshal([]byte(result), &told), "%s", output)
	require.Equal(t, map[string]string{"job": "reports", "what": "all", "scope": "cluster/orders", "token": token.String()}, told)
}

func (s service) runsOnce(t *testing.T) {
	work := s.work("Reports")
	work.Args = []any{"once"}
	job := jobs.Job{Name: "once", Work: work}
	first, second := jobs.NewTail(0), jobs.NewTail(0)
	require.NoError(t, job.Do(t.Context(), nil, jobs.Run{Scheduled: instant, Stdout: first}))
	require.NoError(t, job.Do(t.Context(), nil, jobs.Run{Scheduled: instant, Stdout: second}))
	require.Equal(t, strings.Replace(first.String(), "is started", "had been started already", 1), second.String())

	// also without waiting
	work.Wait = false
	third := jobs.NewTail(0)
	require.NoError(t, job.Do(t.Context(), nil, jobs.Run{Scheduled: instant, Stdout: third}))
	line, _, _ := strings.Cut(second.String(), "\n")
	require.Equal(t, line+"\n", third.String())
}

func (s service) isTriedAgain(t *testing.T) {
	job := jobs.Job{Name: "fails", Work: s.work("Fails")}
	var runs []string
	for range 2 {
		err := job.Do(t.Context(), nil, jobs.Run{Scheduled: instant})
		var failed *temporal.WorkflowError
		require.ErrorAs(t, err, &failed)
		var reason *sdk.ApplicationError
		require.ErrorAs(t, err, &reason)
		require.Equal(t, "DiskFull", reason.Type())
		runs = append(runs, failed.RunID)
	}
	require.NotEqual(t, runs[0], runs[1])
}

// preempt runs a job, has a more important one take its lock, and returns its
// error.
func (s service) preempt(t *testing.T, job jobs.Job) error {
	t.Helper()
	g := guard(t)
	ended := make(chan error, 1)
	go func() { ended <- job.Do(t.Context(), g, jobs.Run{Scheduled: instant}) }()
	s.await(t, job.Name+"-2026-03-08T07:30:00Z", enums.WORKFLOW_EXECUTION_STATUS_RUNNING)
	urgent := lockguard.Requirement{Scope: job.Requirements[0].Scope, Priority: 100}
	require.NoError(t, g.Do(t.Context(), urgent, func(context.Context) error { return nil }))
	return <-ended
}

func (s service) isCancelled(t *testing.T) {
	err := s.preempt(t, jobs.Job{
		Name: "stays", Work: s.work("Stays"),
		Requirements: []lockguard.Requirement{{Scope: "cluster/stays", CleanupTimeout: patience}},
	})
	require.ErrorAs(t, err, new(*lockguard.PreemptedError))
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_CANCELED, s.status(t, "stays-2026-03-08T07:30:00Z"))
}

func (s service) isTerminated(t *testing.T) {
	work := s.work("Refuses")
	work.Terminate, work.CancelTimeout = true, time.Second
	err := s.preempt(t, jobs.Job{
		Name: "refuses", Work: work,
		Requirements: []lockguard.Requirement{{Scope: "cluster/refuses", CleanupTimeout: patience}},
	})
	require.ErrorAs(t, err, new(*lockguard.PreemptedError))
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, s.status(t, "refuses-2026-03-08T07:30:00Z"))
}

func (s service) isNotWaitedFor(t *testing.T) {
	work := s.work("Stays")
	work.Wait, work.IDPrefix = false, "eu/"
	job := jobs.Job{Name: "starts", Work: work}
	require.NoError(t, job.Do(t.Context(), nil, jobs.Run{Attempt: "by-hand"}))
	s.await(t, "eu/starts-by-hand", enums.WORKFLOW_EXECUTION_STATUS_RUNNING)
	require.NoError(t, s.TerminateWorkflow(t.Context(), "eu/starts-by-hand", "", "the test is over"))
}

// service is a client that jobs use, of a server that has a worker for the
// workflows of these tests.
type service struct {
	client.Client
	queue string
}

func start(t *testing.T) service {
	t.Helper()
	server := temporals.Server(t)
	namespace := server.Namespace(t)
	queue := startWorker(t, server.ClientIn(t, namespace), worker.Options{}, func(registry worker.Registry) {
		registry.RegisterWorkflowWithOptions(reports, workflow.RegisterOptions{Name: "Reports"})
		registry.RegisterWorkflowWithOptions(fails, workflow.RegisterOptions{Name: "Fails"})
		registry.RegisterWorkflowWithOptions(stays, workflow.RegisterOptions{Name: "Stays"})
		registry.RegisterWorkflowWithOptions(refuses, workflow.RegisterOptions{Name: "Refuses"})
	})
	own, err := temporal.NewClient(temporal.Options{Address: server.Addr(), Namespace: namespace})
	require.NoError(t, err)
	t.Cleanup(own.Close)
	return service{Client: own, queue: queue}
}

func (s service) work(workflow string) *temporal.StartWorkflow {
	return &temporal.StartWorkflow{Client: s, TaskQueue: s.queue, Workflow: workflow, Wait: true}
}

// status is how a workflow is seen by the server.
func (s service) status(t *testing.T, id string) enums.WorkflowExecutionStatus {
	t.Helper()
	described, err := s.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	return described.GetWorkflowExecutionInfo().GetStatus()
}

func (s service) await(t *testing.T, id string, want enums.WorkflowExecutionStatus) {
	t.Helper()
	require.Eventually(t, func() bool {
		described, err := s.DescribeWorkflowExecution(t.Context(), id, "")
		return err == nil && described.GetWorkflowExecutionInfo().GetStatus() == want
	}, patience, 10*time.Millisecond, "workflow %s is not %s", id, want)
}

// reports returns what it was told of its job, and its argument.
func reports(ctx workflow.Context, what string) (map[string]string, error) {
	origin, ok, err := temporal.OriginOf(ctx)
	if err != nil || !ok {
		return nil, errors.Join(err, errors.New("it has no origin"))
	}
	return map[string]string{"job": origin.Job, "what": what, "scope": origin.Scope, "token": strconv.FormatInt(int64(origin.Token), 10)}, nil
}

func fails(workflow.Context) error {
	return sdk.NewNonRetryableApplicationError("disk full", "DiskFull", nil)
}

// stays until it is cancelled.
func stays(ctx workflow.Context) error {
	return workflow.Sleep(ctx, time.Hour)
}

// refuses to go.
func refuses(ctx workflow.Context) error {
	lasting, _ := workflow.NewDisconnectedContext(ctx)
	return workflow.Sleep(lasting, time.Hour)
}
