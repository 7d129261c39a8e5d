package temporal_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// TestJobsStartWorkflows shares one server, which takes a moment to start.
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
