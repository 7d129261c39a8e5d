package temporal_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/temporaltest"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

const queue = "orders"

// instant is that of a schedule.
var instant = time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)

// service is a Temporal server with a worker.
type service struct {
	client.Client
	*temporaltest.TestServer
}

// start starts a server, and a worker for the workflows of these tests.
func start(t *testing.T) service {
	t.Helper()
	server := temporaltest.NewServer(temporaltest.WithT(t))
	server.NewWorker(queue, func(registry worker.Registry) {
		registry.RegisterWorkflowWithOptions(reports, workflow.RegisterOptions{Name: "Reports"})
		registry.RegisterWorkflowWithOptions(fails, workflow.RegisterOptions{Name: "Fails"})
		registry.RegisterWorkflowWithOptions(stays, workflow.RegisterOptions{Name: "Stays"})
		registry.RegisterWorkflowWithOptions(refuses, workflow.RegisterOptions{Name: "Refuses"})
	})
	own, err := temporal.NewClient(temporal.Options{Address: server.GetFrontendHostPort(), Namespace: server.GetDefaultNamespace()})
	require.NoError(t, err)
	t.Cleanup(own.Close)
	return service{Client: own, TestServer: server}
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

func (s service) work(workflow string) *temporal.StartWorkflow {
	return &temporal.StartWorkflow{Client: s, TaskQueue: queue, Workflow: workflow, Wait: true}
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

// guard returns a guard on a ZooKeeper in memory.
func guard(t *testing.T) *lockguard.Guard {
	t.Helper()
	zk := zktest.RunT(t)
	locks, err := recipes.NewClient(recipes.Config{Servers: []string{zk.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locks.Close(context.Background())) })
	g, err := lockguard.New(locks)
	require.NoError(t, err)
	return g
}
