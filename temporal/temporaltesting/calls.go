package temporaltesting

import (
	"context"
	"strconv"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/temporal"
)

// callHeader numbers the activities that are to be waited for.
const callHeader = "lockkeeper-testing-call"

// calls are the activities that a workflow has executed with WaitForCancellation,
// which the environment of the SDK ignores: it goes on at once, and does not cancel
// the activity. With locks that makes a difference, because compensation would run
// beside what it undoes. So it is cancelled, and waited for, as on a server.
type calls struct {
	env *testsuite.TestWorkflowEnvironment

	mu  sync.Mutex
	all map[string]*oneCall
}

type oneCall struct {
	cancel   context.CancelCauseFunc // nil: it is not running
	canceled bool
}

func newCalls(env *testsuite.TestWorkflowEnvironment) *calls {
	return &calls{env: env, all: make(map[string]*oneCall)}
}

func signalOf(id string) string { return callHeader + "-" + id }

// begin numbers a call.
func (c *calls) begin() (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id = strconv.Itoa(len(c.all) + 1)
	c.all[id] = &oneCall{}
	return id
}

// cancel tells the activity, and reports whether it is running.
func (c *calls) cancel(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.all[id]
	call.canceled = true
	if call.cancel == nil {
		return false
	}
	call.cancel(sdk.NewCanceledError())
	return true
}

// run runs one attempt of an activity.
func (c *calls) run(ctx context.Context, next func(ctx context.Context) (any, error)) (any, error) {
	payload := interceptor.Header(ctx)[callHeader]
	if payload == nil {
		return next(ctx)
	}
	id := string(payload.GetData())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	call := c.all[id]
	if call.canceled {
		c.mu.Unlock()
		return nil, sdk.NewCanceledError()
	}
	call.cancel = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		call.cancel = nil
		if call.canceled {
			workflowID := activity.GetInfo(ctx).WorkflowExecution.ID
			c.env.RegisterDelayedCallback(func() { _ = c.env.SignalWorkflowByID(workflowID, signalOf(id), nil) }, 0)
		}
	}()
	return next(ctx)
}

// InterceptWorkflow is called for each run.
func (s *stage) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &stageWorkflow{
		WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, calls: s.calls,
	}
}

type stageWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	calls *calls
}

// Init gets between the workflow and the SDK, next to the latter.
func (w *stageWorkflow) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return w.Next.Init(&stageCommands{
		WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: outbound}, calls: w.calls,
	})
}

type stageCommands struct {
	interceptor.WorkflowOutboundInterceptorBase
	calls *calls
}

// ExecuteActivity executes an activity, whose future is ready when it has ended.
func (c *stageCommands) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if activityType == temporal.HolderActivity || !workflow.GetActivityOptions(ctx).WaitForCancellation {
		return c.Next.ExecuteActivity(ctx, activityType, args...)
	}
	id := c.calls.begin()
	interceptor.WorkflowHeader(ctx)[callHeader] = &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingBinary)}, Data: []byte(id),
	}
	ended := c.Next.ExecuteActivity(ctx, activityType, args...)
	waited, settable := workflow.NewFuture(ctx)
	detached, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(detached, func(ctx workflow.Context) {
		if err := ended.Get(ctx, nil); sdk.IsCanceledError(err) && c.calls.cancel(id) {
			workflow.GetSignalChannel(ctx, signalOf(id)).Receive(ctx, nil)
		}
		settable.Chain(ended)
	})
	return waited
}
