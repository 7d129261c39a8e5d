package temporal

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// workerInterceptor is what the plugin adds to a worker.
type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	host *host
}

// InterceptActivity is called for each attempt.
func (w *workerInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &activityInterceptor{host: w.host}
	i.Next = next
	return i
}

// activityInterceptor is around one attempt.
type activityInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	host *host
}

// ExecuteActivity runs the attempt under its lock, if it needs one.
func (i *activityInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	lock := i.host.plugin.declarations.of(info.ActivityType.Name)
	if lock == nil {
		return i.Next.ExecuteActivity(ctx, in)
	}
	requirements, err := lock.of(arguments{args: in.Args, workflowID: info.WorkflowExecution.ID})
	if err != nil {
		return nil, misdeclared(info.ActivityType.Name, err)
	}
	defer i.host.begin(lock.cleanup())()
	hold, err := i.host.plugin.guard.AcquireAll(ctx, requirements)
	if err != nil {
		return nil, failure(ErrTypeLockWaitTimeout, "waited in vain", err)
	}
	defer func() { _ = hold.Release(ctx) }()
	return i.Next.ExecuteActivity(hold.Context(), in)
}
