package temporaltesting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A stage is a workflow environment in which locks are real. It is the Temporal
// server that keepers of locks talk to, and keeps the virtual clock of the
// environment from going on while a lock is on its way: the environment counts
// running activities, so the activity that keeps a lock runs until that is over.
type stage struct {
	worker.PluginBase
	interceptor.WorkerInterceptorBase
	locks  *Locks
	env    *testsuite.TestWorkflowEnvironment
	closed atomic.Bool
	end    context.CancelFunc // of what waits
	ctx    context.Context
	calls  *calls
}

func newStage(l *Locks, env *testsuite.TestWorkflowEnvironment) *stage {
	s := &stage{locks: l, env: env, calls: newCalls(env)}
	s.ctx, s.end = context.WithCancel(l.ctx)
	return s
}

// Name returns its name among plugins.
func (s *stage) Name() string { return "lockkeeper-testing-stage" }

// ConfigureWorker adds the interceptor, as the outermost one.
func (s *stage) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append([]interceptor.WorkerInterceptor{s}, o.WorkerOptions.Interceptors...)
	return nil
}

// StopWorker is called when the workflow is closed. What it still holds is given
// away then, as on a server.
func (s *stage) StopWorker(
	ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions),
) {
	s.closed.Store(true)
	s.end()
	next(ctx, o)
}

// InterceptActivity is called for each attempt.
func (s *stage) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &stageActivity{
		ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, stage: s,
	}
}

// stageActivity is around one attempt.
type stageActivity struct {
	interceptor.ActivityInboundInterceptorBase
	stage  *stage
	keeper *keeper // nil: it keeps no lock
}

// Init gets between the activity and the SDK.
func (a *stageActivity) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	return a.Next.Init(newStageOutbound(activity.GetClient, a, outbound))
}

// stageOutbound gives keepers their server. C is the type of clients in
// interceptors, which has no name that could be written here.
type stageOutbound[C any] struct {
	interceptor.ActivityOutboundInterceptorBase
	activity *stageActivity
}

func newStageOutbound[C any](
	_ func(context.Context) C, a *stageActivity, next interceptor.ActivityOutboundInterceptor,
) *stageOutbound[C] {
	return &stageOutbound[C]{
		ActivityOutboundInterceptorBase: interceptor.ActivityOutboundInterceptorBase{Next: next}, activity: a,
	}
}

// GetClient returns the stage to keepers.
func (o *stageOutbound[C]) GetClient(ctx context.Context) C {
	c := any(o.Next.GetClient(ctx))
	if k := o.activity.keeper; k != nil {
		c = &stageClient{stage: o.activity.stage, keeper: k}
	}
	found, _ := c.(C)
	return found
}

// keeperPulse has keepers look often whether they are needed yet.
const keeperPulse = 150 * time.Millisecond

// GetInfo is what the environment says, but for keepers.
func (o *stageOutbound[C]) GetInfo(ctx context.Context) activity.Info {
	info := o.Next.GetInfo(ctx)
	if o.activity.keeper != nil {
		info.HeartbeatTimeout = keeperPulse
	}
	return info
}

// ExecuteActivity runs an activity, which may be one of those of WithLock.
func (a *stageActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	switch activity.GetInfo(ctx).ActivityType.Name {
	case temporal.HolderActivity:
		return a.keep(ctx, in)
	case temporal.ReleaseActivity:
		return a.release(ctx, in)
	}
	return a.stage.calls.run(ctx, func(ctx context.Context) (any, error) { return a.Next.ExecuteActivity(ctx, in) })
}

// input is what the stage has to know of the inputs of WithLock's activities. The members of the one that
// releases begin with a capital, which is the same when JSON is read.
type input struct {
	Name        string                `json:"name"`
	Requirement lockguard.Requirement `json:"requirement"`
	Keep        time.Duration         `json:"keep"` // of a lock that is not released but kept for the next run
}

// inputOf reads the argument of one of WithLock's activities.
func inputOf(in *interceptor.ExecuteActivityInput) (input, error) {
	var i input
	if len(in.Args) != 1 {
		return i, fmt.Errorf("temporaltesting: %d arguments in place of one", len(in.Args))
	}
	text, err := json.Marshal(in.Args[0])
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	if err == nil && (i.Name == "" || i.Requirement.Scope == "") {
		err = errors.New("it has no name, or no scope")
	}
	if err != nil {
		return i, fmt.Errorf("temporaltesting: the input %s of %T is not understood: %w", text, in.Args[0], err)
	}
	return i, nil
}

// keep runs the activity that keeps a lock until the workflow has been told that it
// has it, or waits for it, or will not get it.
func (a *stageActivity) keep(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	i, err := inputOf(in)
	if err != nil {
		return nil, sdk.NewNonRetryableApplicationError(err.Error(), temporal.ErrTypeLockConfiguration, err)
	}
	s, t := a.stage, a.stage.locks.tracker
	k := &keeper{
		name: i.Name, scope: i.Requirement.Scope, task: activity.GetInfo(ctx).TaskToken,
		polite: i.Requirement.NeverPreempts || isTry(i.Requirement),
		delta:  priority.Level(max(i.Requirement.PreemptDelta, 1)),
	}
	a.keeper = k
	t.mu.Lock()
	t.keepers[k.name] = k
	t.mu.Unlock()
	s.limit(k, i.Requirement, in)

	result, err := a.Next.ExecuteActivity(ctx, in)
	if err != activity.ErrResultPending { //nolint:errorlint // the SDK compares it so
		t.mu.Lock()
		k.over = true
		t.mu.Unlock()
		return result, err
	}
	beat := time.NewTicker(time.Second) // the environment counts
	defer beat.Stop()
	for {
		t.mu.Lock()
		settled, changed := k.over || t.knowsLocked(k) && t.isSettledLocked(k.scope), t.changed
		t.mu.Unlock()
		if settled {
			return result, err
		}
		select {
		case <-changed:
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		case <-s.ctx.Done():
			return result, err
		}
	}
}

// isTry reports whether a request does not wait.
func isTry(r lockguard.Requirement) bool { return r.AcquireTimeout != nil && *r.AcquireTimeout == 0 }

// limit has a wait end in the time of the workflow, in place of real time.
func (s *stage) limit(k *keeper, r lockguard.Requirement, in *interceptor.ExecuteActivityInput) {
	if r.AcquireTimeout == nil || *r.AcquireTimeout <= 0 {
		return
	}
	limit := *r.AcquireTimeout
	endless := reflect.New(reflect.TypeOf(in.Args[0])).Elem()
	endless.Set(reflect.ValueOf(in.Args[0]))
	r.AcquireTimeout = nil
	endless.FieldByName("Requirement").Set(reflect.ValueOf(r))
	in.Args[0] = endless.Interface()

	s.env.RegisterDelayedCallback(func() {
		t := s.locks.tracker
		now := t.now(k.scope)
		t.mu.Lock()
		late := !k.over && k.told == ""
		if late {
			k.over, k.cancel = true, true
			t.changedLocked()
		}
		t.mu.Unlock()
		if !late {
			return
		}
		_ = s.env.CompleteActivity(k.task, nil, sdk.NewApplicationErrorWithOptions(
			fmt.Sprintf("lock %q not acquired within %s: %s", k.scope, limit, now), temporal.ErrTypeLockWaitTimeout,
			sdk.ApplicationErrorOptions{NonRetryable: true, Category: sdk.ApplicationErrorCategoryBenign}))
		s.locks.await(k.scope, "the request is withdrawn", func() bool { return !t.isThereLocked(k) })
	}, limit)
}

// release runs the activity that gives a lock away, and waits until others know
// that they have it.
func (a *stageActivity) release(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	i, err := inputOf(in)
	if err != nil {
		return nil, err
	}
	t := a.stage.locks.tracker
	t.mu.Lock()
	k := t.keepers[i.Name]
	if k != nil {
		k.over = true
	}
	t.mu.Unlock()
	result, err := a.Next.ExecuteActivity(ctx, in)
	if kept, ok := result.(*commonpb.Payloads); ok && err == nil && i.Keep > 0 {
		return a.stage.locks.keep(ctx, kept, i.Keep)
	}
	if k != nil {
		_ = t.await(a.stage.ctx, func() bool { return t.isSettledLocked(k.scope) })
	}
	return result, err
}

// keep takes over what a worker keeps for the next run, which this worker will not
// see: it ends with the environment. It lasts until the next run takes it over, for d at most.
func (l *Locks) keep(ctx context.Context, result *commonpb.Payloads, d time.Duration) (any, error) {
	dc := converter.GetDefaultDataConverter()
	var kept lockguard.Reference
	if err := dc.FromPayloads(result, &kept); err != nil {
		return nil, err
	}
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	hold, err := l.guard.Adopt(lasting, lockguard.Requirement{}, kept)
	if err != nil {
		end()
		return nil, err
	}
	l.others.Go(func() {
		defer end()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-hold.Context().Done(): // it is taken over, or asked for
		case <-timer.C:
		case <-l.ctx.Done():
		}
		_ = hold.Release(lasting)
	})
	return dc.ToPayloads(hold.Reference())
}

// allAskedLocked reports whether all members of a hold have been preempted.
func (t *tracker) allAskedLocked(hold string) bool {
	for _, r := range t.requests {
		if r.about.Hold == hold && r.phase == held && !r.asked {
			return false
		}
	}
	return true
}

// isThereLocked reports whether a keeper has a request in ZooKeeper.
func (t *tracker) isThereLocked(k *keeper) bool {
	for _, r := range t.requests {
		if k.isOf(r.about) {
			return true
		}
	}
	return false
}

var (
	_ worker.Plugin                 = (*stage)(nil)
	_ interceptor.WorkerInterceptor = (*stage)(nil)
)
