package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// DefaultApprovalQueue is the task queue of approval workflows.
const DefaultApprovalQueue = "lockkeeper-approvals"

// An ApprovalClient is what Approvals need of a Temporal client; a client.Client
// is one.
type ApprovalClient interface {
	DescribeWorkflowExecution(ctx context.Context,
		workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	ListWorkflow(ctx context.Context,
		request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
}

var _ ApprovalClient = client.Client(nil)

// ApprovalsConfig says where approvals are asked for. Client has to be set.
type ApprovalsConfig struct {
	// Client talks to the server, in the namespace where the questions are asked.
	Client ApprovalClient

	// Escalation says who is notified when no one has answered. Defaults to none.
	Escalation []EscalationStep

	// Logger defaults to silence.
	Logger *slog.Logger

	// Root is that of the locks, with the chroot: clusters that share a namespace
	// do not see each other's questions. Defaults to "".
	Root string

	// TaskQueue is where the workers of the approval workflow listen. Defaults to
	// DefaultApprovalQueue.
	TaskQueue string
}

// Approvals asks people in workflows whether a lock may be taken by force. A
// question outlives the process that asks: a process that asks the same again
// (ApprovalID) goes on with it, and its deadline goes on as well.
//
// It is where emergency.Approvals asks (its Forum), and where emergency.Operator
// decides (its Questions), in place of the board in ZooKeeper.
type Approvals struct {
	cfg    ApprovalsConfig
	log    *slog.Logger
	ending atomic.Pointer[context.Context]
	asking sync.WaitGroup
}

// NewApprovals validates cfg.
func NewApprovals(cfg ApprovalsConfig) (*Approvals, error) {
	if cfg.Client == nil {
		return nil, &lockguard.RequestError{Field: "temporal", Reason: "has no client; say where the Temporal server is"}
	}
	if cfg.TaskQueue == "" {
		cfg.TaskQueue = DefaultApprovalQueue
	}
	for i, step := range cfg.Escalation {
		if step.AfterMS <= 0 || step.To == "" {
			return nil, &lockguard.RequestError{
				Field: fmt.Sprintf("escalation[%d]", i), Reason: "says not when, or not to whom; write both",
			}
		}
	}
	a := &Approvals{cfg: cfg, log: cfg.Logger}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	return a, nil
}

// KeepQuestions leaves the questions of requests open that are given up when ctx
// has ended, for the process that asks them again: this process ends, and its successor
// goes on. Those whose holders have gone are closed all the same.
func (a *Approvals) KeepQuestions(ctx context.Context) { a.ending.Store(&ctx) }

// keeps reports whether questions stay open by now.
func (a *Approvals) keeps() bool {
	ctx := a.ending.Load()
	return ctx != nil && (*ctx).Err() != nil
}

// Close waits until the questions that are not needed any more are closed, or
// until ctx ends. No guard uses a any more.
func (a *Approvals) Close(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		a.asking.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ask asks people, and again when the question is closed by hand. While the
// server does not answer it goes on trying, up to the deadline. It returns the
// cause of ctx when that ends first.
func (a *Approvals) Ask(ctx context.Context, q lockguard.Question) (lockguard.Answer, error) {
	a.asking.Add(1)
	defer a.asking.Done()
	question := newQuestion(a.cfg.Root, q, a.cfg.Escalation)
	late := fmt.Errorf("no decision within %s, not even by the deadline: no worker of task queue %s runs, "+
		"or the Temporal server does not answer", q.Patience, a.cfg.TaskQueue)
	bounded, cancel := context.WithTimeoutCause(ctx, q.Patience+deadlineSlack, late)
	defer cancel()
	denied := lockguard.Answer{Decision: lockguard.Decision{ID: question.ID}}
	for wait := askAgain; ; wait = min(2*wait, askRarely) {
		d, before, err := a.ask(bounded, question, q)
		switch {
		case err == nil:
			answer := lockguard.AnswerOf(question.ID, d.decision())
			answer.Person, answer.Before = d.Person, before
			return answer, nil
		case ctx.Err() != nil:
			return denied, context.Cause(ctx)
		case bounded.Err() != nil:
			denied.By, denied.Reason = "the deadline", context.Cause(bounded).Error()
			return denied, nil
		case isRefused(err):
			return denied, err
		}
		a.log.Warn("an approval could not be asked for; tried again",
			"approval", question.ID, "scope", question.Scope, "error", err)
		pause(bounded, wait)
	}
}

const (
	askAgain      = time.Second
	askRarely     = 30 * time.Second
	deadlineSlack = 30 * time.Second // for the server to say that the deadline is over
	leaveTimeout  = 10 * time.Second
	leftBehind    = time.Hour // how long a question may stay without a worker to end it
)

// ask asks once, and returns when that question is answered.
func (a *Approvals) ask(
	ctx context.Context, question ApprovalQuestion, q lockguard.Question,
) (d ApprovalDecision, before bool, err error) {
	id := approvalWorkflowID(question.ID)
	patience, attached, d, err := a.look(ctx, id, question.Deadline())
	if err != nil || d.Approved && !q.Fresh {
		return d, true, err
	}
	me := asker{Name: question.Host + " " + question.Requestor.Owner}
	options := client.StartWorkflowOptions{
		ID: id, TaskQueue: a.cfg.TaskQueue, WorkflowExecutionTimeout: question.Deadline() + leftBehind,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Memo:                     map[string]any{ApprovalMemoKey: question},
		StaticSummary:            fmt.Sprintf("may %s take lock %s by force?", question.Requestor.Owner, question.Scope),
	}
	run, err := a.cfg.Client.SignalWithStartWorkflow(ctx, id, askersSignal, me, options, ApprovalWorkflowType, question)
	if err != nil {
		return d, false, fmt.Errorf("the question was not put to the Temporal server: %w", err)
	}
	defer func() { a.leave(ctx, id, me) }()
	if q.Opened != nil {
		q.Opened(ctx, lockguard.Opened{ID: question.ID, Patience: patience, Attached: attached})
	}
	for {
		var d ApprovalDecision
		err := run.Get(ctx, &d)
		if err == nil || ctx.Err() != nil || errors.As(err, new(*sdk.WorkflowExecutionError)) {
			return d, false, err
		}
		a.log.Warn("the decision cannot be read; tried again", "approval", question.ID, "error", err)
		pause(ctx, askAgain)
	}
}

// look finds out whether the question is being asked, and what is left of its
// deadline; or whether taking over these holders was already approved while no
// process waited for the decision.
func (a *Approvals) look(
	ctx context.Context, id string, patience time.Duration,
) (left time.Duration, attached bool, unheard ApprovalDecision, err error) {
	found, err := a.cfg.Client.DescribeWorkflowExecution(ctx, id, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return patience, false, unheard, nil
	} else if err != nil {
		return 0, false, unheard,
			fmt.Errorf("the Temporal server does not say whether the question is asked already: %w", err)
	}
	info := found.GetWorkflowExecutionInfo()
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		asked := ApprovalQuestion{DeadlineMS: patience.Milliseconds()}
		if payload, ok := info.GetMemo().GetFields()[ApprovalMemoKey]; ok {
			_ = converter.GetDefaultDataConverter().FromPayload(payload, &asked) // else it is taken for ours
		}
		left = time.Until(info.GetStartTime().AsTime().Add(asked.Deadline())) // for people
		return min(max(left, 0), asked.Deadline()), true, unheard, nil
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		var d ApprovalDecision
		if err := a.cfg.Client.GetWorkflow(ctx, id, info.GetExecution().GetRunId()).Get(ctx, &d); err == nil && d.Approved &&
			time.Now().Before(d.Until) {
			return patience, false, d, nil
		}
	default:
	}
	return patience, false, unheard, nil
}

// leave tells that this process does not wait for the decision any more, unless
// another one takes its place.
func (a *Approvals) leave(ctx context.Context, id string, me asker) {
	me.Leave, me.Gone = true, errors.Is(context.Cause(ctx), lockguard.ErrHoldersGone)
	if ctx.Err() == nil || a.keeps() && !me.Gone {
		return // it has ended, or goes on
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	err := a.cfg.Client.SignalWorkflow(ctx, id, "", askersSignal, me)
	if err != nil && !errors.As(err, new(*serviceerror.NotFound)) {
		a.log.Warn("a question stays open until its deadline although its decision is no longer needed",
			"workflow_id", id, "error", err)
	}
}

// isRefused reports whether there is no use in asking again.
func isRefused(err error) bool {
	return errors.As(err, new(*serviceerror.PermissionDenied)) || errors.As(err, new(*serviceerror.InvalidArgument)) ||
		errors.As(err, new(*serviceerror.NamespaceNotFound))
}
