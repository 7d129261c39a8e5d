package temporal

import (
	"cmp"
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// RegisterApprovals makes a worker one that runs approval workflows. escalate
// notifies people of open questions; nil: no notifications.
func RegisterApprovals(registry worker.Registry, escalate EscalateFunc) {
	if escalate == nil {
		escalate = func(context.Context, Escalation) error { return nil }
	}
	RegisterApprovalWorkflow(registry)
	registry.RegisterActivityWithOptions(escalate, activity.RegisterOptions{Name: EscalateActivityType})
}

// RegisterApprovalWorkflow registers the workflow alone: for a replayer, or where
// other workers of the task queue tell people.
func RegisterApprovalWorkflow(registry worker.WorkflowRegistry) {
	registry.RegisterWorkflowWithOptions(ApprovalWorkflow, workflow.RegisterOptions{Name: ApprovalWorkflowType})
}

// ApprovalWorker says how RunApprovalWorker works. The zero value listens on
// DefaultApprovalQueue and does not escalate.
type ApprovalWorker struct {
	Escalate  EscalateFunc
	Logger    *slog.Logger // defaults to silence
	TaskQueue string       // defaults to DefaultApprovalQueue
}

// RunApprovalWorker runs a small worker for approval workflows until ctx ends. It
// is apart from the workers of applications, so that people can decide while
// those are down, and in a process that can write the audit trail: a daemon. A
// server that does not answer is tried again, for ever.
func RunApprovalWorker(ctx context.Context, c Connection, w ApprovalWorker) {
	log := w.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for wait := askAgain; ctx.Err() == nil; wait = min(2*wait, askRarely) {
		failed := make(chan error, 1)
		queue := cmp.Or(w.TaskQueue, DefaultApprovalQueue)
		runs := worker.New(c, queue, worker.Options{
			MaxConcurrentWorkflowTaskPollers: 2, MaxConcurrentActivityTaskPollers: 2, MaxConcurrentActivityExecutionSize: 16,
			DisableRegistrationAliasing: true,
			OnFatalError: func(err error) {
				select {
				case failed <- err:
				default:
				}
			},
		})
		RegisterApprovals(runs, w.Escalate)
		err := runs.Start()
		if err == nil {
			log.Debug("approval workflows are worked on", "task_queue", queue)
			wait = askAgain
			select {
			case <-ctx.Done():
				runs.Stop()
				return
			case err = <-failed:
				runs.Stop()
			}
		}
		log.Warn("no approval workflows are worked on; tried again", "task_queue", queue, "error", err, "after", wait)
		pause(ctx, wait)
	}
}
