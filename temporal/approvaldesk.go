package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"
)

// OpenApproval is a question that waits for a decision.
type OpenApproval struct {
	ApprovalQuestion
	Opened    time.Time // by the clock of the Temporal server
	Until     time.Time // likewise
	Escalated []Escalated
}

// List returns the questions about locks of the Root that wait for a decision, in
// the order in which they were opened. It needs no worker. The server may take a
// moment until it lists a new one.
func (a *Approvals) List(ctx context.Context) ([]OpenApproval, error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'", ApprovalWorkflowType, strings.ReplaceAll(a.cfg.TaskQueue, "'", "''")),
	}
	var all []OpenApproval
	for {
		page, err := a.cfg.Client.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("approvals of the Temporal server: %w", err)
		}
		for _, info := range page.GetExecutions() {
			if o, ok := openApproval(info); ok && o.Root == a.cfg.Root {
				all = append(all, o)
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	slices.SortFunc(all, func(x, y OpenApproval) int { return x.Opened.Compare(y.Opened) })
	return all, nil
}

// Find returns a question that waits for a decision. The error is a
// *NoApprovalError, or an *ApprovalDecidedError.
func (a *Approvals) Find(ctx context.Context, id string) (OpenApproval, error) {
	if !IsApprovalID(id) {
		return OpenApproval{}, &NoApprovalError{ID: id}
	}
	found, err := a.cfg.Client.DescribeWorkflowExecution(ctx, approvalWorkflowID(id), "")
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return OpenApproval{}, &NoApprovalError{ID: id}
	case err != nil:
		return OpenApproval{}, fmt.Errorf("approval %q: the Temporal server does not say how it stands: %w", id, err)
	}
	info := found.GetWorkflowExecutionInfo()
	o, ok := openApproval(info)
	switch {
	case !ok || o.Root != a.cfg.Root:
		return OpenApproval{}, &NoApprovalError{ID: id}
	case info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return o, nil
	}
	return OpenApproval{}, a.over(ctx, id)
}

// over says what has become of a question that is not asked any more.
func (a *Approvals) over(ctx context.Context, id string) error {
	var d ApprovalDecision
	if err := a.cfg.Client.GetWorkflow(ctx, approvalWorkflowID(id), "").Get(ctx, &d); err != nil {
		return &NoApprovalError{ID: id}
	}
	return &ApprovalDecidedError{ID: id, Decision: d}
}

// Decide sends one of ApproveUpdate, ForceUpdate and DenyUpdate. The error is a
// *NoApprovalError when nobody asks any more, an *ApprovalDecidedError when it has
// been decided already, or says that no worker has answered: it may be decided
// all the same then.
func (a *Approvals) Decide(ctx context.Context, id, update string, r ApprovalRuling) (ApprovalState, error) {
	var state ApprovalState
	handle, err := a.cfg.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: approvalWorkflowID(id), UpdateName: update, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &state)
	}
	if err == nil {
		return state, nil
	}
	if refused, ok := errors.AsType[*sdk.ApplicationError](err); ok && refused.Type() == refusedDecided {
		var d ApprovalDecision
		if !refused.HasDetails() || refused.Details(&d) != nil {
			return state, &NoApprovalError{ID: id}
		}
		return state, &ApprovalDecidedError{ID: id, Decision: d}
	} else if ok {
		return state, fmt.Errorf("approval %q not decided: %s", id, refused.Message())
	}
	if errors.As(err, new(*serviceerror.NotFound)) {
		return state, a.over(ctx, id)
	}
	if ctx.Err() != nil {
		return state, fmt.Errorf("approval %q may be decided or not: no worker of task queue %s has answered; is a daemon running that has approvals.temporal? %w", id, a.cfg.TaskQueue, err)
	}
	return state, fmt.Errorf("approval %q not decided: %w", id, err)
}

// openApproval reads the memo of a workflow.
func openApproval(info *workflow.WorkflowExecutionInfo) (OpenApproval, bool) {
	fields := info.GetMemo().GetFields()
	var o OpenApproval
	payload, ok := fields[ApprovalMemoKey]
	if !ok || info.GetType().GetName() != ApprovalWorkflowType || converter.GetDefaultDataConverter().FromPayload(payload, &o.ApprovalQuestion) != nil {
		return o, false
	}
	if payload, ok := fields[EscalatedMemoKey]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(payload, &o.Escalated) // for people
	}
	o.Opened = info.GetStartTime().AsTime()
	o.Until = o.Opened.Add(o.Deadline())
	return o, true
}

// NoApprovalError is returned for a question that nobody asks, or nobody any more:
// its holders have gone, or the request was given up.
type NoApprovalError struct{ ID string }

func (e *NoApprovalError) Error() string {
	return fmt.Sprintf("there is no approval %q, or not any more: the request has got its lock, or was given up", e.ID)
}

// ApprovalDecidedError is returned for a question that has been decided already.
type ApprovalDecidedError struct {
	ID       string
	Decision ApprovalDecision
}

func (e *ApprovalDecidedError) Error() string {
	s := fmt.Sprintf("approval %q was %s already, by %s", e.ID, e.Decision.Word(), e.Decision.By)
	if e.Decision.Identity != "" {
		s += " (" + e.Decision.Identity + ")"
	}
	return fmt.Sprintf("%s at %s", s, e.Decision.At.Format(time.RFC3339))
}
