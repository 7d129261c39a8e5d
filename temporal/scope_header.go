package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const (
	// scopeHeader tells an activity which holds it is in scope of.
	scopeHeader = "lockkeeper-hold"

	// keptHeader tells a workflow which locks the run before has kept for it.
	keptHeader = "lockkeeper-kept"
)

// minGrace is what an activity that cleans up has at least.
const minGrace = time.Second

// A scoped says that a context is in scope of a hold.
type scoped struct {
	hold     *workflowHold
	cleanup  bool
	deadline time.Time // of the cleanup
}

type scopedKey struct{}

// scopesOf returns all the holds that a context is in scope of, outermost first.
func scopesOf(ctx workflow.Context) []scoped {
	all, _ := ctx.Value(scopedKey{}).([]scoped)
	return all
}

// within returns a context in scope of s as well, in place of what it was in scope of
// for the same lock before.
func (s scoped) within(parent workflow.Context) workflow.Context {
	all := slices.DeleteFunc(slices.Clone(scopesOf(parent)), func(outer scoped) bool {
		return outer.hold.requirement.Scope == s.hold.requirement.Scope
	})
	return workflow.WithValue(parent, scopedKey{}, append(all, s))
}

// withoutLost returns a context that is in scope of no hold that is lost: what puts
// things right would not begin there.
func withoutLost(ctx workflow.Context) workflow.Context {
	held := slices.DeleteFunc(slices.Clone(scopesOf(ctx)), func(s scoped) bool { return s.hold.phase != holdGranted })
	if len(held) == len(scopesOf(ctx)) {
		return ctx
	}
	return workflow.WithValue(ctx, scopedKey{}, held)
}

// cleansUp reports whether what begins now is cleanup: what else has such a
// context was cancelled when the workflow was notified.
func (s scoped) cleansUp() bool {
	return s.cleanup || s.hold.interrupted != nil && s.hold.interrupted.Held()
}

// learning returns a future of an activity in scope whose failure its holds hear of
// before another holder does.
func learning(ctx workflow.Context, scopes []scoped, activity workflow.Future) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	detached, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(detached, func(ctx workflow.Context) {
		if err := activity.Get(ctx, nil); err != nil {
			for _, s := range scopes {
				s.hold.learn(err)
			}
		}
		settable.Chain(activity)
	})
	return future
}

// A membership is what the header of an activity says about a hold. Headers pass
// by codecs: nothing in it is secret.
type membership struct {
	Reference lockguard.Reference `json:"reference"`
	Cleanup   bool                `json:"cleanup,omitempty"`
}

// holdInterceptor brings activities into the holds of their workflows.
type holdInterceptor struct {
	interceptor.WorkerInterceptorBase
	locks lockService
}

// InterceptWorkflow is called for each run.
func (i *holdInterceptor) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &holdInbound{
		WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, run: &holdRun{},
	}
}

// InterceptActivity is called for each attempt of an activity.
func (i *holdInterceptor) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &memberInbound{
		ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, locks: i.locks,
	}
}

// A holdRun is what the WithLocks of one run have in common.
type holdRun struct {
	kept []lockguard.Reference // by the run before, for those that have not come yet
}

type holdRunKey struct{}

// runOf returns what the WithLocks of the run have in common; false if the
// interceptors are not there that WithLock needs.
func runOf(ctx workflow.Context) (*holdRun, bool) {
	run, ok := ctx.Value(holdRunKey{}).(*holdRun)
	return run, ok
}

// keptFor returns what the run before has kept of a scope, once.
func keptFor(ctx workflow.Context, scope string) (lockguard.Reference, bool) {
	run, _ := runOf(ctx)
	for i, reference := range run.kept {
		if reference.Scope == scope {
			run.kept = append(run.kept[:i:i], run.kept[i+1:]...)
			return reference, true
		}
	}
	return lockguard.Reference{}, false
}

type holdInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	run *holdRun
}

// Init wraps what the workflow calls.
func (i *holdInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&holdOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: outbound}})
}

// ExecuteWorkflow takes over what the run before has kept.
func (i *holdInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if payload, ok := interceptor.WorkflowHeader(ctx)[keptHeader]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &i.run.kept); err != nil {
			workflow.GetLogger(ctx).Warn("what the run before has kept cannot be read; its locks are asked for anew",
				"error", err)
			i.run.kept = nil
		}
	}
	return i.Next.ExecuteWorkflow(workflow.WithValue(ctx, holdRunKey{}, i.run), in)
}

// ExecuteUpdate lets handlers of updates use WithLock as well.
func (i *holdInbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	return i.Next.ExecuteUpdate(workflow.WithValue(ctx, holdRunKey{}, i.run), in)
}

type holdOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

// ExecuteActivity tells an activity in scope about its holds.
func (o *holdOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	scopes := scopesOf(ctx)
	if len(scopes) == 0 || activityType == HolderActivity {
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	if err := tellScopes(ctx, scopes); err != nil {
		return failed(ctx, err)
	}
	options := workflow.GetActivityOptions(ctx)
	options.WaitForCancellation = true // or cleanup would run beside it
	if grace, ok := graceOf(ctx, scopes); ok && options.ScheduleToCloseTimeout == 0 {
		options.ScheduleToCloseTimeout = grace
	}
	return learning(ctx, scopes,
		o.Next.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activityType, args...))
}

// ExecuteLocalActivity does the same.
func (o *holdOutbound) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	scopes := scopesOf(ctx)
	if len(scopes) == 0 || activityType == ReleaseActivity {
		return o.Next.ExecuteLocalActivity(ctx, activityType, args...)
	}
	if err := tellScopes(ctx, scopes); err != nil {
		return failed(ctx, err)
	}
	options := workflow.GetLocalActivityOptions(ctx)
	if grace, ok := graceOf(ctx, scopes); ok && options.ScheduleToCloseTimeout == 0 {
		options.ScheduleToCloseTimeout = grace
		ctx = workflow.WithLocalActivityOptions(ctx, options)
	}
	return learning(ctx, scopes, o.Next.ExecuteLocalActivity(ctx, activityType, args...))
}

// NewContinueAsNewError tells the next run what is kept for it.
func (o *holdOutbound) NewContinueAsNewError(ctx workflow.Context, wfn any, args ...any) error {
	var kept []lockguard.Reference
	for _, s := range scopesOf(ctx) {
		if s.hold.kept {
			kept = append(kept, s.hold.reference)
		}
	}
	if len(kept) > 0 {
		payload, err := converter.GetDefaultDataConverter().ToPayload(kept)
		if err != nil {
			return err
		}
		interceptor.WorkflowHeader(ctx)[keptHeader] = payload
	}
	return o.Next.NewContinueAsNewError(ctx, wfn, args...)
}

// tellScopes writes into the header which holds an activity is in scope of.
func tellScopes(ctx workflow.Context, scopes []scoped) error {
	members := make([]membership, len(scopes))
	for i, s := range scopes {
		members[i] = membership{Reference: s.hold.reference, Cleanup: s.cleansUp()}
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(members)
	if err != nil {
		return err
	}
	interceptor.WorkflowHeader(ctx)[scopeHeader] = payload
	return nil
}

// graceOf returns what is left for cleanup; false if the context is not one of it.
func graceOf(ctx workflow.Context, scopes []scoped) (time.Duration, bool) {
	s := scopes[len(scopes)-1]
	if !s.cleanup {
		return 0, false
	}
	return max(s.deadline.Sub(workflow.Now(ctx)), minGrace), true
}

func failed(ctx workflow.Context, err error) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	settable.SetError(err)
	return future
}

// memberInbound runs an activity under the holds that it is in scope of.
type memberInbound struct {
	interceptor.ActivityInboundInterceptorBase
	locks lockService
}

// ExecuteActivity joins the holds, outermost first, and runs the activity under
// them.
func (i *memberInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	members, err := membershipsOf(interceptor.Header(ctx))
	if err != nil {
		return nil, failure(ErrTypeLockConfiguration, "the lock of the workflow is not known", err, forGood, loud)
	}
	return i.execute(ctx, in, members)
}

func (i *memberInbound) execute(
	ctx context.Context, in *interceptor.ExecuteActivityInput, members []membership,
) (result any, err error) {
	if len(members) == 0 {
		return i.Next.ExecuteActivity(ctx, in)
	}
	m := members[0]
	hold, err := joinHold(ctx, i.locks, m, activity.GetInfo(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = hold.Release(ctx) }() // tried on in the background
	result, err = i.execute(hold.Context(), in, members[1:])
	return result, endedBy(hold.Context(), err, m)
}

func membershipsOf(header map[string]*commonpb.Payload) ([]membership, error) {
	payload, ok := header[scopeHeader]
	if !ok {
		return nil, nil
	}
	var members []membership
	err := converter.GetDefaultDataConverter().FromPayload(payload, &members)
	return members, err
}

// joinHold returns the activity's own membership in a hold.
func joinHold(ctx context.Context, locks lockService, m membership, info activity.Info) (heldLock, error) {
	requirement := lockguard.Requirement{
		Scope: m.Reference.Scope, Hold: m.Reference.Hold, Owner: info.ActivityType.Name,
		Message: "workflow " + info.WorkflowExecution.ID,
	}
	hold, err := locks.join(ctx, requirement, m.Reference, m.Cleanup)
	if err == nil {
		return hold, nil
	}
	if final := refusedToJoin(err, m); final != nil {
		return nil, final
	}
	if unavailable(err) {
		return nil, failure(ErrTypeLockUnavailable, fmt.Sprintf("hold of lock %q not joined", m.Reference.Scope), err, loud)
	}
	return nil, fmt.Errorf("hold of lock %q not joined: %w", m.Reference.Scope, err)
}

// refusedToJoin says why a hold cannot be joined at any time; nil: that is not
// known.
func refusedToJoin(err error, m membership) error {
	if i, _ := interruptionBy(err, m.Reference); i.Held() {
		return i.error(err, true)
	}
	if errors.As(err, new(*lock.NotThereError)) || errors.As(err, new(*lockguard.RequestError)) {
		return lostBecause(m.Reference, "%v", err).error(err, true)
	}
	return nil
}
