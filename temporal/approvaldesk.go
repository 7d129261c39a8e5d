package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// List returns the questions about locks of the Root that wait for a decision, in
// the order in which they were opened. It needs no worker. The server may take a
// moment until it lists a new one.
func (a *Approvals) List(ctx context.Context) ([]opstore.Approval, error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'",
			ApprovalWorkflowType, strings.ReplaceAll(a.cfg.TaskQueue, "'", "''")),
	}
	var all []opstore.Approval
	for {
		page, err := a.cfg.Client.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("approvals of the Temporal server: %w", err)
		}
		for _, info := range page.GetExecutions() {
			if o, ok := a.openApproval(info); ok {
				all = append(all, o)
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	slices.SortFunc(all, func(x, y opstore.Approval) int { return x.Opened.Compare(y.Opened) })
	return all, nil
}

// Find returns a question that waits for a decision. The error is a
// *opstore.NoApprovalError, or a *opstore.DecidedError.
func (a *Approvals) Find(ctx context.Context, id string) (opstore.Approval, error) {
	none := &opstore.NoApprovalError{ID: id, Workflow: true}
	if !IsApprovalID(id) {
		return opstore.Approval{}, none
	}
	found, err := a.cfg.Client.DescribeWorkflowExecution(ctx, approvalWorkflowID(id), "")
	switch {
	case errors.As(err, new(*serviceerror.NotFound)):
		return opstore.Approval{}, none
	case err != nil:
		return opstore.Approval{}, fmt.Errorf("approval %q: the Temporal server does not say how it stands: %w", id, err)
	}
	info := found.GetWorkflowExecutionInfo()
	o, ok := a.openApproval(info)
	switch {
	case !ok:
		return opstore.Approval{}, none
	case info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return o, nil
	}
	return opstore.Approval{}, a.over(ctx, id)
}

// over says what has become of a question that is not asked any more.
func (a *Approvals) over(ctx context.Context, id string) error {
	var d ApprovalDecision
	if err := a.cfg.Client.GetWorkflow(ctx, approvalWorkflowID(id), "").Get(ctx, &d); err != nil {
		return &opstore.NoApprovalError{ID: id, Workflow: true}
	}
	return &opstore.DecidedError{ID: id, Decision: d.decision()}
}

// Decide sends the update that says d, of which At is not looked at. The error is
// a *opstore.NoApprovalError when the question is closed, a *opstore.DecidedError
// when it has been decided already, or says that no worker has answered: it may be
// decided all the same then.
func (a *Approvals) Decide(ctx context.Context, id string, d opstore.Decision) error {
	handle, err := a.cfg.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: approvalWorkflowID(id), UpdateName: updateOf(d), WaitForStage: client.WorkflowUpdateStageCompleted,
		Args: []any{ApprovalRuling{By: d.By, Reason: d.Reason, Identity: d.Identity}},
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*sdk.ApplicationError](err); ok && refused.Type() == refusedDecided {
		var d ApprovalDecision
		if !refused.HasDetails() || refused.Details(&d) != nil {
			return &opstore.NoApprovalError{ID: id, Workflow: true}
		}
		return &opstore.DecidedError{ID: id, Decision: d.decision()}
	} else if ok {
		return fmt.Errorf("approval %q not decided: %s", id, refused.Message())
	}
	if errors.As(err, new(*serviceerror.NotFound)) {
		return a.over(ctx, id)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("approval %q may be decided or not: no worker of task queue %s has answered; "+
			"is a daemon running that has approvals.temporal? %w", id, a.cfg.TaskQueue, err)
	}
	return fmt.Errorf("approval %q not decided: %w", id, err)
}

// updateOf is the update that says a decision.
func updateOf(d opstore.Decision) string {
	switch {
	case !d.Approved:
		return DenyUpdate
	case d.Force:
		return ForceUpdate
	}
	return ApproveUpdate
}

// openApproval reads the memo of a workflow. It reports whether that asks about a
// lock of the Root.
func (a *Approvals) openApproval(info *workflow.WorkflowExecutionInfo) (o opstore.Approval, ok bool) {
	fields := info.GetMemo().GetFields()
	var q ApprovalQuestion
	payload, ok := fields[ApprovalMemoKey]
	if !ok || info.GetType().GetName() != ApprovalWorkflowType ||
		converter.GetDefaultDataConverter().FromPayload(payload, &q) != nil || q.Root != a.cfg.Root {
		return o, false
	}
	o = q.Approval()
	if payload, ok := fields[EscalatedMemoKey]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(payload, &o.Escalated) // for people
	}
	o.Opened = info.GetStartTime().AsTime()
	o.Until = o.Opened.Add(o.Deadline)
	return o, true
}
