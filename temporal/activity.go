package temporal

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// workerInterceptor is what the plugin adds to a worker.
type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	host *host
}

// InterceptActivity is called for each attempt.
func (w *workerInterceptor) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	i := &activityInterceptor{host: w.host}
	i.Next = next
	return i
}

// activityInterceptor is around one attempt.
type activityInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	host     *host
	outbound interceptor.ActivityOutboundInterceptor // of the SDK
	pulse    atomic.Pointer[pulse]                   // nil: the SDK's own heartbeats
}

// Init gets between the activity and the SDK.
func (i *activityInterceptor) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	i.outbound = outbound
	o := &activityOutbound{attempt: i}
	o.Next = outbound
	return i.Next.Init(o)
}

// ExecuteActivity runs the attempt under its lock, if it needs one.
func (i *activityInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := i.outbound.GetInfo(ctx)
	call, err := readCall(interceptor.Header(ctx))
	if err != nil {
		return nil, misdeclared(info.ActivityType.Name, err)
	}
	lock, err := i.lockOf(info, call)
	switch {
	case err != nil:
		return nil, misdeclared(info.ActivityType.Name, err)
	case lock == nil:
		return i.Next.ExecuteActivity(ctx, in)
	}
	return i.execute(ctx, in, info, call, lock)
}

func (i *activityInterceptor) execute(
	ctx context.Context, in *interceptor.ExecuteActivityInput, info activity.Info, call call, lock *compiled,
) (result any, err error) {
	a := &locked{host: i.host, info: info, lock: lock, call: call, began: time.Now(), outer: ctx}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	defer a.cancel(nil)
	completed := false         // nor when it panics
	if !info.IsLocalActivity { // before anything else: the server counts
		stop := i.beat(ctx, a)
		defer func() { stop(!completed) }()
	}
	a.requirements, err = lock.of(arguments{args: in.Args, workflowID: info.WorkflowExecution.ID})
	if err != nil {
		return nil, misdeclared(info.ActivityType.Name, err)
	}
	a.fill()
	result, err = a.run(func(ctx context.Context) (any, error) { return i.Next.ExecuteActivity(ctx, in) })
	completed = err == nil
	return result, err
}

// beat starts the heartbeats of the attempt.
func (i *activityInterceptor) beat(ctx context.Context, a *locked) (stop func(failed bool)) {
	logger := i.host.plugin.logger
	left, err := inherited(ctx, i.outbound)
	if err != nil {
		logger.Warn("progress of the attempt before cannot be read as it is, and is not kept",
			"activity_id", a.info.ActivityID, "error", err)
	}
	if left.slip != nil {
		a.slip = *left.slip
	}
	var token tokenClient
	if i.host.isReal() {
		a.client = i.outbound.GetClient(ctx)
		token = a.client
	}
	a.pulse = startPulse(ctx, token, i.outbound, a.info, left, a.cancel, logger)
	i.pulse.Store(a.pulse)
	return a.pulse.stop
}

// lockOf returns the lock that the attempt needs; nil: none.
func (i *activityInterceptor) lockOf(info activity.Info, call call) (*compiled, error) {
	lock := i.host.lockOf(info.ActivityType.Name)
	if call.Lock != nil {
		special := call.Lock.lock()
		if lock != nil && special.CleanupTimeout > 0 {
			special.Cleanup = lock.Cleanup
		}
		var err error
		if lock, err = special.compile(); err != nil {
			return nil, err
		}
	}
	if lock != nil && info.IsLocalActivity && lock.waits() {
		return nil, fmt.Errorf("a local activity cannot wait for a lock, which its workflow task would wait for: "+
			"set acquire_timeout to 0, or on_busy to skip (it is %s)", lock.OnBusy)
	}
	return lock, nil
}

// waits reports whether an attempt may wait for the lock.
func (l Lock) waits() bool {
	patience := l.patience()
	return l.OnBusy != BusySkip && (patience == nil || *patience > 0)
}
