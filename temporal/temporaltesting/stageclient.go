package temporaltesting

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A stageClient is the Temporal server as one keeper sees it. The environment knows
// no other calls.
type stageClient struct {
	client.Client
	stage  *stage
	keeper *keeper
}

// SignalWorkflow tells the workflow something.
func (c *stageClient) SignalWorkflow(ctx context.Context, workflowID, _, name string, arg any) error {
	if c.stage.closed.Load() {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	var news struct {
		State     string              `json:"state"`
		Reference lockguard.Reference `json:"reference"`
	}
	text, err := json.Marshal(arg)
	if err == nil {
		err = json.Unmarshal(text, &news)
	}
	if err != nil || news.State == "" {
		return fmt.Errorf("temporaltesting: the signal %s is not understood: %w", text, err)
	}
	if !strings.HasSuffix(name, c.keeper.name) {
		return fmt.Errorf("temporaltesting: no receiver of the signal %s", name)
	}
	env, t := c.stage.env, c.stage.locks.tracker
	if news.State == toldPreempting { // activities hear of it first, as they do in production
		_ = t.await(ctx, func() bool { return t.allAskedLocked(news.Reference.Hold) })
	}
	env.RegisterDelayedCallback(func() { _ = env.SignalWorkflowByID(workflowID, name, arg) }, 0) // in its main loop
	t.mu.Lock()
	defer t.mu.Unlock()
	c.keeper.told, c.keeper.token = news.State, news.Reference.Token
	if news.Reference.Hold != "" {
		c.keeper.hold = news.Reference.Hold
	}
	t.changedLocked()
	return nil
}

// RecordActivityHeartbeat says whether the lock is needed yet.
func (c *stageClient) RecordActivityHeartbeat(context.Context, []byte, ...any) error {
	if c.stage.closed.Load() {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	t := c.stage.locks.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.keeper.cancel {
		return sdk.NewCanceledError()
	}
	return nil
}

// CompleteActivity tells the workflow how the keeper has ended.
func (c *stageClient) CompleteActivity(_ context.Context, token []byte, result any, err error) error {
	if c.stage.closed.Load() {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	failed := c.stage.env.CompleteActivity(token, result, err)
	t := c.stage.locks.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	c.keeper.over = true
	t.changedLocked()
	return failed
}

// DescribeWorkflowExecution says whether the workflow is closed.
func (c *stageClient) DescribeWorkflowExecution(
	context.Context, string, string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	status := enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	if c.stage.closed.Load() {
		status = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status},
	}, nil
}
