package temporal

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// heartbeatTimeout is what activities get that need a lock and set none: without
// one a worker that dies keeps them for as long as they may run.
const heartbeatTimeout = 5 * time.Second

// WithActivityLock returns a context with which activities are executed under
// this lock, whatever is declared for their types. The workers of the workflow
// and of the activities need the Plugin; without it in this worker, it panics.
//
// What is wrong with the lock becomes the error of the activity's future, an
// *ApplicationError of the type ErrTypeLockConfiguration.
func WithActivityLock(ctx workflow.Context, lock Lock) workflow.Context {
	if !installed(ctx) {
		panic("temporal: WithActivityLock: the plugin is not installed in this worker, so the lock would not be taken; " +
			"add the one of NewPlugin to worker.Options.Plugins or client.Options.Plugins")
	}
	return workflow.WithValue(ctx, callLockKey{}, &lock)
}

type (
	callLockKey  struct{}
	installedKey struct{}
)

// installed reports whether the plugin is in the worker that runs the workflow.
func installed(ctx workflow.Context) bool {
	_, ok := ctx.Value(installedKey{}).(*workerInterceptor)
	return ok
}

// WithActivityOptionsKept leaves the options of activities that need a lock as
// the workflow sets them, and refuses none. By default HeartbeatTimeout is set to
// 5s if it is not set, WaitForCancellation is set, and what an attempt may wait,
// and its cleanup may take, is added to a StartToCloseTimeout.
func WithActivityOptionsKept() PluginOption {
	return func(p *Plugin) error {
		p.keepOptions = true
		return nil
	}
}

// InterceptWorkflow is called for each run of a workflow.
func (w *workerInterceptor) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	i := &workflowInbound{worker: w}
	i.Next = next
	return i
}

// workflowInbound has the contexts of a workflow know of the plugin.
type workflowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	worker *workerInterceptor
}

// Init gets between the workflow and the SDK.
func (i *workflowInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	o := &workflowOutbound{worker: i.worker, calls: make(map[string]int)}
	o.Next = outbound
	return i.Next.Init(o)
}

// ExecuteWorkflow runs the workflow.
func (i *workflowInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return underDeclared(i.mark(ctx), func(ctx workflow.Context) (any, error) { return i.Next.ExecuteWorkflow(ctx, in) })
}

// HandleSignal handles a signal.
func (i *workflowInbound) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	return i.Next.HandleSignal(i.mark(ctx), in)
}

// ExecuteUpdate handles an update.
func (i *workflowInbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	return i.Next.ExecuteUpdate(i.mark(ctx), in)
}

func (i *workflowInbound) mark(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, installedKey{}, i.worker)
}

// workflowOutbound tells workers which locks the activities need that a workflow
// executes. It adds nothing to the history but what it says in headers.
type workflowOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	worker *workerInterceptor
	calls  map[string]int // of the run, by type; the same in every replay
}

// ExecuteActivity executes an activity.
func (o *workflowOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	o.calls[activityType]++
	call, lock, err := o.callOf(ctx, activityType)
	if err == nil && lock == nil {
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	if err == nil && !o.worker.host.plugin.keepOptions {
		options := workflow.GetActivityOptions(ctx)
		if call.Run, err = lock.fit(&options); err == nil {
			ctx = workflow.WithActivityOptions(ctx, options)
		}
	}
	if err == nil {
		err = call.write(interceptor.WorkflowHeader(ctx))
	}
	if err != nil && o.refuses(ctx, activityType) {
		future, settable := workflow.NewFuture(ctx)
		settable.SetError(misdeclared(activityType, err))
		return future
	}
	return o.Next.ExecuteActivity(ctx, activityType, args...)
}

// ExecuteLocalActivity executes a local activity.
func (o *workflowOutbound) ExecuteLocalActivity(
	ctx workflow.Context, activityType string, args ...any,
) workflow.Future {
	call, _, err := o.callOf(ctx, activityType)
	if err == nil {
		err = call.write(interceptor.WorkflowHeader(ctx))
	}
	if err != nil {
		future, settable := workflow.NewFuture(ctx)
		settable.SetError(misdeclared(activityType, err))
		return future
	}
	return o.Next.ExecuteLocalActivity(ctx, activityType, args...)
}

// callOf returns the lock that an activity needs; nil: none.
func (o *workflowOutbound) callOf(ctx workflow.Context, activityType string) (call, *compiled, error) {
	special, ok := ctx.Value(callLockKey{}).(*Lock)
	if !ok || special == nil {
		return call{}, o.worker.host.likelyLockOf(activityType), nil
	}
	wire, err := special.wire()
	if err != nil {
		return call{}, nil, err
	}
	lock, err := special.compile()
	return call{Lock: wire}, lock, err
}

// refuses reports whether an activity that cannot be is not scheduled. A run that
// has scheduled it when nothing was wrong with it does so again when it is
// replayed: the first refusal leaves a marker of a version behind.
func (o *workflowOutbound) refuses(ctx workflow.Context, activityType string) bool {
	id := fmt.Sprintf("lockkeeper-refused-%s-%d", activityType, o.calls[activityType])
	return o.Next.GetVersion(ctx, id, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// fit makes the options fit the lock. It returns how long an attempt may run; 0:
// as long as its StartToCloseTimeout says.
func (l Lock) fit(options *workflow.ActivityOptions) (run time.Duration, err error) {
	var patience time.Duration // unset: whatever there is
	if p := l.patience(); p != nil && l.OnBusy != BusySkip {
		patience = *p
	}
	cleanup, run := l.cleanup(), options.StartToCloseTimeout
	total := options.ScheduleToCloseTimeout
	if needs := patience + run + cleanup; total > 0 && (needs > total || run == 0 && needs == total) {
		return 0, fmt.Errorf("it may wait %s for its lock, run %s and clean up for %s, which is more than its "+
			"ScheduleToCloseTimeout of %s: lengthen that, or shorten acquire_timeout, StartToCloseTimeout or cleanup_timeout",
			patience, run, cleanup, total)
	}
	if options.HeartbeatTimeout == 0 {
		options.HeartbeatTimeout = heartbeatTimeout
	}
	options.WaitForCancellation = true
	if run == 0 {
		return 0, nil
	}
	if inSlot := l.inSlot(patience, options.RetryPolicy); inSlot > 0 || cleanup > 0 {
		options.StartToCloseTimeout = run + inSlot + cleanup + 2*safetyMargin
		return run, nil
	}
	return 0, nil
}

// inSlot is how long one attempt may wait.
func (l Lock) inSlot(patience time.Duration, policy *sdk.RetryPolicy) time.Duration {
	switch l.OnBusy {
	case BusyWait:
		return patience
	case BusyHybrid:
		switch {
		case policy != nil && policy.MaximumAttempts == 1:
			return max(patience, l.inSlotWait()) // it cannot yield
		case patience > 0:
			return min(patience, l.inSlotWait())
		case l.patience() == nil:
			return l.inSlotWait()
		}
	case BusyRetry, BusySkip:
	}
	return 0
}
