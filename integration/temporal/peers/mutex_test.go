package peers

import (
	"context"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The mutex of the samples: one workflow for each resource serves requests,
// which are signals, in their order. It answers with a signal that names the
// signal by which the lock is given back, and waits for that; not for ever.

const (
	requestSignal = "request"
	grantSignal   = "grant"
	unlockTimeout = 10 * time.Minute
)

func registerMutex(l *lane, w worker.Registry) {
	w.RegisterWorkflowWithOptions(l.mutex, workflow.RegisterOptions{Name: "Mutex"})
	w.RegisterActivity(l.RequestMutex)
}

func (l *lane) withMutex(ctx workflow.Context, resource string, body func(workflow.Context) error) error {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: time.Minute})
	var mutex workflow.Execution
	err := workflow.ExecuteLocalActivity(local, l.RequestMutex, resource, workflow.GetInfo(ctx).WorkflowExecution.ID).Get(ctx, &mutex)
	if err != nil {
		return err
	}
	var release string
	workflow.GetSignalChannel(ctx, grantSignal).Receive(ctx, &release)
	if err := body(ctx); err != nil {
		return err
	}
	return workflow.SignalExternalWorkflow(ctx, mutex.ID, mutex.RunID, release, nil).Get(ctx, nil)
}

// RequestMutex starts the mutex of the resource, if it does not run, and puts a
// workflow into its queue.
func (l *lane) RequestMutex(ctx context.Context, resource, requester string) (workflow.Execution, error) {
	options := client.StartWorkflowOptions{ID: "mutex:" + resource, TaskQueue: l.queue}
	run, err := l.client.SignalWithStartWorkflow(ctx, options.ID, requestSignal, requester, options, "Mutex")
	if err != nil {
		return workflow.Execution{}, err
	}
	return workflow.Execution{ID: run.GetID(), RunID: run.GetRunID()}, nil
}

// mutex ends when no request is left.
func (l *lane) mutex(ctx workflow.Context) error {
	l.beside(ctx)
	requests := workflow.GetSignalChannel(ctx, requestSignal)
	for {
		var requester string
		if !requests.ReceiveAsync(&requester) {
			return nil
		}
		var release string
		err := workflow.SideEffect(ctx, func(workflow.Context) any { return "release-" + requester }).Get(&release)
		if err != nil {
			return err
		}
		if workflow.SignalExternalWorkflow(ctx, requester, "", grantSignal, release).Get(ctx, nil) != nil {
			continue // it is gone
		}
		workflow.NewSelector(ctx).
			AddFuture(workflow.NewTimer(ctx, unlockTimeout), func(workflow.Future) {}).
			AddReceive(workflow.GetSignalChannel(ctx, release), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
			Select(ctx)
	}
}
