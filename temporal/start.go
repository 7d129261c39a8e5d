package temporal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A Client is what StartWorkflow needs of a Temporal client; a client.Client
// is one.
type Client interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions,
		workflow any, args ...any) (client.WorkflowRun, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	CancelWorkflowWithOptions(ctx context.Context, options client.CancelWorkflowOptions) error
	TerminateWorkflowWithOptions(ctx context.Context, options client.TerminateWorkflowOptions) error
}

var _ Client = client.Client(nil)

// DefaultCancelTimeout is what a StartWorkflow without a CancelTimeout gets.
const DefaultCancelTimeout = 10 * time.Second

// StartWorkflow is a workflow as jobs.Work. Its id is IDPrefix and then
// jobs.Run.Key: the job with the instant of the schedule, or with the attempt
// of a run by hand. In a cleanup hook "-cleanup" and the token of the lock are
// appended: it is another workflow.
//
// A workflow of that id that has been started before is taken for the one that
// was to be started. Only with Wait, where an attempt that failed may be tried
// again (jobs.Retry, jobs.PreemptedRequeue), another one is started if that one
// has failed, or was cancelled, terminated or timed out. Temporal knows ids for
// as long as its namespace keeps closed workflows.
//
// StartWorkflow has no state: it may run several times at once.
//
// Without Wait the work, and with it the lock, ends when the workflow has been
// started. With Wait it ends when the workflow is closed: the lock is held for
// as long as that takes, also while the Temporal server is away, and whatever
// ends the right to it cancels the workflow, which has the grace to close.
//
// The workflow itself may outlive the lock all the same: a worker that has
// stalled cannot be notified. So it gets the fencing token, as a memo
// ([OriginOf]), to give to whatever it writes to.
type StartWorkflow struct {
	// Args are given to the workflow: anything that can be written as JSON, or
	// what the Client knows to write.
	Args []any

	// CancelTimeout, with Wait, is how long the workflow has from the request to
	// cancel it until it is given up, where the cause does not say it: a
	// preemption and the end of a lease bring their own grace, of which the
	// workflow has all, or CancelTimeout if that is set and shorter: then hooks
	// have the rest. Defaults to 0: DefaultCancelTimeout.
	CancelTimeout time.Duration

	// Client talks to the server, for example one of NewClient.
	Client Client

	// ExecutionTimeout bounds the workflow with all its retries and
	// continuations, RunTimeout each of these. The server sees to them, and
	// knows seconds only. Default to 0: no bound.
	ExecutionTimeout, RunTimeout time.Duration

	// IDPrefix comes before the id. Defaults to none.
	IDPrefix string

	// Memo is shown with the workflow. The key MemoKey is added to it.
	Memo map[string]any

	// SearchAttributes are those that the workflow can be found by.
	SearchAttributes sdk.SearchAttributes

	// TaskQueue is where the workers of the workflow listen.
	TaskQueue string

	// Terminate, with Wait, ends a workflow that is not closed when its time to
	// cancel is over, and one whose lock was lost. Without, it is left alone.
	Terminate bool

	// Wait makes the work last as long as the workflow. Defaults to false: until
	// it is started.
	Wait bool

	// Workflow is the name of its type.
	Workflow string
}

// maxID bounds IDPrefix and Workflow: with the name of a job and an instant
// an id stays below the 255 bytes that some stores have.
const (
	maxPrefix = 80
	maxName   = 200
)

// String says what is started, for people.
func (w *StartWorkflow) String() string {
	return fmt.Sprintf("workflow %s on task queue %s", w.Workflow, w.TaskQueue)
}

// Validate returns everything that is wrong with w, joined (errors.Join); each
// problem is a *lockguard.RequestError.
//
//nolint:cyclop,funlen // one check for each thing that can be wrong
func (w *StartWorkflow) Validate() error {
	if w == nil {
		return &lockguard.RequestError{Field: "workflow", Reason: "is nil; give the workflow to start"}
	}
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &lockguard.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	name := func(field, is, like string, limit int) {
		switch {
		case is == "":
			refuse(field, "is missing; write one such as %s", like)
		case len(is) > limit:
			refuse(field, "is %d bytes long; write at most %d", len(is), limit)
		case strings.ContainsFunc(is, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0xfffd }):
			refuse(field, "%q has a character in it that cannot be shown; write it without", is)
		}
	}
	duration := func(field string, d time.Duration) {
		switch {
		case d < 0:
			refuse(field, "%s is negative; write a duration such as 1h, or leave it out", d)
		case d > 0 && d < time.Second:
			refuse(field, "%s is shorter than a second, which Temporal does not know; write 1s or more", d)
		}
	}

	if w.Client == nil {
		refuse("temporal", "has no client; say where the Temporal server is")
	}
	name("workflow", w.Workflow, "Rebalance", maxName)
	name("task_queue", w.TaskQueue, "orders", maxName)
	if w.IDPrefix != "" {
		name("id_prefix", w.IDPrefix, "orders-", maxPrefix)
	}
	duration("execution_timeout", w.ExecutionTimeout)
	duration("run_timeout", w.RunTimeout)
	if w.ExecutionTimeout > 0 && w.RunTimeout > w.ExecutionTimeout {
		refuse("run_timeout",
			"run_timeout (%s) is longer than execution_timeout (%s); shorten the one or lengthen the other",
			w.RunTimeout, w.ExecutionTimeout)
	}
	if w.CancelTimeout < 0 {
		refuse("cancel_timeout", "%s is negative; write a duration such as 30s, or leave it out", w.CancelTimeout)
	}
	if !w.Wait {
		if w.CancelTimeout != 0 {
			refuse("cancel_timeout", "has no meaning without wait; write wait: true, or leave it out")
		}
		if w.Terminate {
			refuse("terminate", "has no meaning without wait; write wait: true, or leave it out")
		}
	}
	for i, arg := range w.Args {
		if _, err := converter.GetDefaultDataConverter().ToPayload(arg); err != nil {
			refuse(fmt.Sprintf("args[%d]", i), "cannot be written as JSON: %v", err)
		}
	}
	if _, taken := w.Memo[MemoKey]; taken {
		refuse("memo."+MemoKey, "is set by lockkeeper itself; leave it out")
	}
	return errors.Join(problems...)
}

// Run starts the workflow. With Wait it returns when the workflow is closed, its
// result written to Run.Stdout; when its context ends, it cancels the workflow
// and returns when that is closed, or at the end of the grace period. On the loss of the
// lock it does not wait at all.
//
// Run returns nil for a workflow that was started, or with Wait has completed;
// *StartError if it could not be started, *WorkflowError if it closed in
// another way, and *StoppedError if the work was stopped.
func (w *StartWorkflow) Run(ctx context.Context, run jobs.Run) error {
	if h, ok := lockguard.FromContext(ctx); ok {
		return w.run(ctx, run, h)
	}
	return w.run(ctx, run, nil)
}

// run runs w under h, which may be nil.
func (w *StartWorkflow) run(ctx context.Context, run jobs.Run, h lockguard.WorkHold) error {
	if err := w.Validate(); err != nil {
		return err
	}
	if run.Key() == "" {
		return &lockguard.RequestError{
			Field: "run", Reason: "has neither an instant nor an attempt to name the workflow by; run it as a jobs.Job",
		}
	}
	a := &attempt{StartWorkflow: w, ctx: ctx, run: run, signals: lockguard.NewStopSignals(ctx, h, run.Lost)}
	if run.Cause != nil {
		a.signals = a.signals.InHook()
	}
	a.id = w.IDPrefix + run.Key()
	if run.Cause != nil {
		a.id += "-cleanup"
		if h != nil {
			a.id += "-" + h.Info().Token.String()
		}
	}
	if cause := a.signals.Cause(); cause != nil {
		return &StoppedError{Cause: cause, ID: a.id, Workflow: w.Workflow}
	}
	if err := a.start(originOf(run, h)); err != nil || !w.Wait {
		return err
	}
	return a.wait()
}

// An attempt is one run of a StartWorkflow.
type attempt struct {
	*StartWorkflow
	ctx     context.Context
	run     jobs.Run
	signals lockguard.StopSignals

	id        string
	execution client.WorkflowRun // nil: not known to be there
	first     string             // run id of the first of its chain; "" if not known
}

// start returns when the workflow is known to be there.
func (a *attempt) start(origin Origin) error {
	memo := map[string]any{MemoKey: origin}
	maps.Copy(memo, a.Memo)
	options := client.StartWorkflowOptions{
		ID:                       a.id,
		TaskQueue:                a.TaskQueue,
		WorkflowExecutionTimeout: a.ExecutionTimeout,
		WorkflowRunTimeout:       a.RunTimeout,
		Memo:                     memo,
		TypedSearchAttributes:    a.SearchAttributes,

		// Whether it was there already is known from an error alone.
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}
	if a.Wait {
		options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	}
	ctx, stop := a.signals.Context()
	defer stop()
	execution, err := a.Client.ExecuteWorkflow(ctx, options, a.Workflow, a.Args...)
	if there, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		a.execution, a.first = a.Client.GetWorkflow(ctx, a.id, there.RunId), there.FirstExecutionRunId
		a.say("had been started already", there.RunId)
		return nil
	}
	if err != nil {
		if cause := a.signals.Cause(); cause != nil {
			return a.notStarted(cause)
		}
		return &StartError{Err: err, ID: a.id, Workflow: a.Workflow}
	}
	a.execution, a.first = execution, execution.GetRunID()
	a.say("is started", a.first)
	return nil
}

// notStarted is the end of work that was stopped while it was starting the
// workflow, which may be there all the same.
func (a *attempt) notStarted(cause error) error {
	stopped := &StoppedError{Cause: cause, ID: a.id, Workflow: a.Workflow}
	if !a.Wait {
		return stopped // another attempt finds it
	}
	ctx, done := a.moment()
	defer done()
	stopped.Err = a.cancel(ctx, cause)
	return stopped
}

// say tells where the workflow is to be found.
func (a *attempt) say(what, runID string) {
	a.logger().Info("workflow "+what, "workflow", a.Workflow, "workflow_id", a.id, "workflow_run", runID)
	if a.run.Stdout != nil {
		_, _ = fmt.Fprintf(a.run.Stdout, "workflow %s %s: id %s, run %s\n", a.Workflow, what, a.id, runID)
	}
}
