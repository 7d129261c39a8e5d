package peers

import (
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The permit of the documentation: a child workflow whose id is that of the
// resource, so that a second one cannot be started. It ends by a signal to that
// very run, or with its lease. Who finds it running tries again later.

const (
	releaseSignal = "release"
	permitLease   = 10 * time.Minute
	permitBackoff = time.Second
)

func registerPermit(l *lane, w worker.Registry) {
	w.RegisterWorkflowWithOptions(l.permit, workflow.RegisterOptions{Name: "Permit"})
}

func (l *lane) withPermit(ctx workflow.Context, resource string, body func(workflow.Context) error) error {
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: "permit:" + resource, ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON,
	})
	for {
		permit := workflow.ExecuteChildWorkflow(child, "Permit")
		var run workflow.Execution
		err := permit.GetChildWorkflowExecution().Get(ctx, &run)
		switch {
		case temporal.IsWorkflowExecutionAlreadyStartedError(err):
			if !workflow.IsReplaying(ctx) {
				l.mu.Lock()
				l.failed++
				l.mu.Unlock()
			}
			if err := workflow.Sleep(ctx, permitBackoff); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if err := body(ctx); err != nil {
			return err
		}
		if err := workflow.SignalExternalWorkflow(ctx, run.ID, run.RunID, releaseSignal, nil).Get(ctx, nil); err != nil {
			return err
		}
		return permit.Get(ctx, nil)
	}
}

func (l *lane) permit(ctx workflow.Context) error {
	l.beside(ctx)
	lease, drop := workflow.WithCancel(ctx)
	workflow.NewSelector(ctx).
		AddFuture(workflow.NewTimer(lease, permitLease), func(workflow.Future) {}).
		AddReceive(workflow.GetSignalChannel(ctx, releaseSignal), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		Select(ctx)
	drop()
	return nil
}
