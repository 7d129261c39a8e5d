package temporal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Names of the approval workflow, as others than this package call it: by
// `temporal workflow query` and `temporal workflow update execute`, for example.
const (
	ApprovalWorkflowType = "lockkeeper.Approval" // its type
	EscalateActivityType = "lockkeeper.Escalate" // the activity that notifies a person
	ApprovalMemoKey      = "lockkeeper_approval" // its ApprovalQuestion, in the memo
	EscalatedMemoKey     = "lockkeeper_escalated"

	ApprovalStateQuery = "state" // returns an ApprovalState
	// takes an ApprovalRuling: the lock may be taken when the grace of its holders is over
	ApproveUpdate  = "approve"
	ForceUpdate    = "force"    // likewise: at once
	DenyUpdate     = "deny"     // likewise: the request fails
	askersSignal   = "askers"   // of processes that ask
	refusedDecided = "Decided"  // type of the error of a second decision
	refusedRuling  = "NoRuling" // of one without who or why
)

// ApprovalRuling is what a person decides about a question.
type ApprovalRuling struct {
	By       string `json:"by"`                 // who says so; has to be there
	Reason   string `json:"reason"`             // why; likewise
	Identity string `json:"identity,omitempty"` // in ZooKeeper, "digest:ana", as that one says
}

// ApprovalDecision is what has become of a question, and the result of the
// workflow.
type ApprovalDecision struct {
	Approved bool      `json:"approved"`
	Force    bool      `json:"force,omitempty"` // approved: at once, not only when the grace of the holders is over
	By       string    `json:"by"`              // a person, or "the deadline"
	Reason   string    `json:"reason"`
	Identity string    `json:"identity,omitempty"`
	Person   bool      `json:"person"` // By is one
	At       time.Time `json:"at"`     // by the clock of the Temporal server
	Until    time.Time `json:"until"`  // the deadline of the question
}

// decision is what was decided as others than this package know it.
func (d ApprovalDecision) decision() opstore.Decision {
	return opstore.Decision{
		Approved: d.Approved, Force: d.Force, By: d.By, Reason: d.Reason, Identity: d.Identity, At: d.At,
	}
}

// Word is what was decided: approved, forced or denied.
func (d ApprovalDecision) Word() string { return d.decision().Word() }

// ApprovalState is how a question stands.
type ApprovalState struct {
	Question  ApprovalQuestion    `json:"question"`
	Opened    time.Time           `json:"opened"` // by the clock of the Temporal server
	Until     time.Time           `json:"until"`  // likewise: then it is denied
	Askers    []string            `json:"askers"` // hosts and owners of those that wait for the decision
	Escalated []opstore.Escalated `json:"escalated,omitempty"`
	Decision  *ApprovalDecision   `json:"decision"`
}

// An Escalation is what the Escalate activity is given.
type Escalation struct {
	Question ApprovalQuestion `json:"question"`
	To       string           `json:"to"`
	Until    time.Time        `json:"until"` // when the question is denied, by the clock of the Temporal server
}

// An EscalateFunc notifies a person that a question waits for a decision. It runs as
// an activity: an error has it tried again until the deadline of the question.
type EscalateFunc func(ctx context.Context, e Escalation) error

// ApprovalWorkflow asks people whether a lock may be taken by force. Register it
// with RegisterApprovals.
//
// It completes with the decision: that of the first valid update approve, force or
// deny, or of the deadline. It ends as cancelled when the decision is not needed any
// more: the holders have gone, or all requests were given up.
func ApprovalWorkflow(ctx workflow.Context, q ApprovalQuestion) (ApprovalDecision, error) {
	opened := workflow.GetInfo(ctx).WorkflowStartTime.UTC()
	a := &approval{
		state: ApprovalState{Question: q, Opened: opened, Until: opened.Add(q.Deadline())},
		log:   workflow.GetLogger(ctx),
	}
	if err := a.listen(ctx); err != nil {
		return ApprovalDecision{}, err
	}
	for _, step := range q.Escalation {
		workflow.Go(ctx, func(ctx workflow.Context) { a.escalate(ctx, step) })
	}
	left := a.state.Until.Sub(workflow.Now(ctx))
	inTime, err := workflow.AwaitWithTimeout(ctx, max(left, time.Millisecond), func() bool {
		return a.state.Decision != nil || a.unwanted
	})
	switch {
	case err != nil:
		return ApprovalDecision{}, err
	case a.state.Decision != nil:
	case a.unwanted:
		return ApprovalDecision{}, sdk.NewCanceledError("the decision is no longer needed")
	case !inTime:
		a.decide(ctx, q.late())
	}
	return *a.state.Decision, nil
}

// An approval is one run of an ApprovalWorkflow.
type approval struct {
	state    ApprovalState
	unwanted bool // the decision is no longer needed
	log      interface {
		Info(msg string, keyvals ...any)
		Warn(msg string, keyvals ...any)
	}
}

// asker is a process that asks, or does not any more.
type asker struct {
	Name  string `json:"name"`
	Leave bool   `json:"leave,omitempty"`
	Gone  bool   `json:"gone,omitempty"` // the holders are gone: no decision is needed
}

// listen answers queries, updates and signals.
func (a *approval) listen(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, ApprovalStateQuery, func() (ApprovalState, error) {
		return a.state, nil
	}); err != nil {
		return err
	}
	for _, u := range []struct {
		name     string
		decision ApprovalDecision
	}{
		{ApproveUpdate, ApprovalDecision{Approved: true}},
		{ForceUpdate, ApprovalDecision{Approved: true, Force: true}},
		{DenyUpdate, ApprovalDecision{}},
	} {
		handle := func(ctx workflow.Context, r ApprovalRuling) (ApprovalState, error) {
			d := u.decision
			d.By, d.Reason, d.Identity, d.Person = strings.TrimSpace(r.By), shorten(strings.TrimSpace(r.Reason)),
				r.Identity, true
			a.decide(ctx, d)
			return a.state, nil
		}
		options := workflow.UpdateHandlerOptions{
			Validator:   a.refuse,
			Description: "Decides, once: {by, reason}.",
		}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, u.name, handle, options); err != nil {
			return err
		}
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		for signals := workflow.GetSignalChannel(ctx, askersSignal); ; {
			var s asker
			if !signals.Receive(ctx, &s) {
				return
			}
			a.hear(s)
		}
	})
	return nil
}

// late is what becomes of a question without an answer.
func (q ApprovalQuestion) late() ApprovalDecision {
	return ApprovalDecision{By: "the deadline", Reason: fmt.Sprintf("no decision within %s", q.Deadline())}
}

// refuse validates a decision before it is accepted. The deadline counts also while
// no worker was there to say so.
func (a *approval) refuse(ctx workflow.Context, r ApprovalRuling) error {
	by := strings.TrimSpace(r.By)
	late := a.state.Question.late()
	late.At, late.Until = a.state.Until, a.state.Until
	switch d := a.state.Decision; {
	case d != nil:
		return sdk.NewNonRetryableApplicationError(fmt.Sprintf("it was %s already, by %s", d.Word(), d.By),
			refusedDecided, nil, *d)
	case a.unwanted:
		return sdk.NewNonRetryableApplicationError("the decision is no longer needed", refusedDecided, nil)
	case !workflow.Now(ctx).Before(a.state.Until):
		return sdk.NewNonRetryableApplicationError("its deadline is over: it is denied", refusedDecided, nil, late)
	case by == "" || len(by) > maxApprovalText:
		return sdk.NewNonRetryableApplicationError("by is missing, or takes more than 1000 bytes; write who decides",
			refusedRuling, nil)
	case strings.TrimSpace(r.Reason) == "":
		return sdk.NewNonRetryableApplicationError("reason is missing; write why, for those who look at the record",
			refusedRuling, nil)
	}
	return nil
}

func (a *approval) decide(ctx workflow.Context, d ApprovalDecision) {
	d.At, d.Until = workflow.Now(ctx).UTC(), a.state.Until
	a.state.Decision = &d
	a.log.Info("approval decided", "decision", d.Word(), "approval", a.state.Question.ID, "scope", a.state.Question.Scope,
		"by", d.By, "reason", d.Reason)
}

// hear keeps account of who wants to know.
func (a *approval) hear(s asker) {
	is := func(name string) bool { return name == s.Name }
	switch {
	case s.Gone:
		a.state.Askers = nil
	case s.Leave:
		a.state.Askers = slices.DeleteFunc(a.state.Askers, is)
	case !slices.ContainsFunc(a.state.Askers, is):
		a.state.Askers = append(a.state.Askers, s.Name)
	}
	a.unwanted = len(a.state.Askers) == 0
}

// escalate notifies the person of step when it is due, unless a decision has been made.
func (a *approval) escalate(ctx workflow.Context, step EscalationStep) {
	wait := a.state.Opened.Add(step.After()).Sub(workflow.Now(ctx))
	if err := workflow.Sleep(ctx, wait); err != nil || a.state.Decision != nil || a.unwanted {
		return
	}
	a.state.Escalated = append(a.state.Escalated, opstore.Escalated{At: workflow.Now(ctx).UTC(), To: step.To})
	slices.SortStableFunc(a.state.Escalated, func(x, y opstore.Escalated) int {
		return cmp.Compare(x.At.UnixNano(), y.At.UnixNano())
	})
	a.log.Warn("an approval is escalated", "approval", a.state.Question.ID,
		"scope", a.state.Question.Scope, "to", step.To)
	if err := workflow.UpsertMemo(ctx, map[string]any{EscalatedMemoKey: a.state.Escalated}); err != nil {
		a.log.Warn("an escalation was not added to the workflow's memo", "approval", a.state.Question.ID, "error", err)
	}
	left := max(a.state.Until.Sub(workflow.Now(ctx)), time.Second)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: left, StartToCloseTimeout: min(left, escalateTimeout),
		Summary: "tells " + step.To,
	})
	e := Escalation{Question: a.state.Question, To: step.To, Until: a.state.Until}
	if err := workflow.ExecuteActivity(ctx, EscalateActivityType, e).Get(ctx, nil); err != nil {
		a.log.Warn("an escalation was not delivered", "approval", a.state.Question.ID, "to", step.To, "error", err)
	}
}

// escalateTimeout bounds one attempt to notify a person.
const escalateTimeout = 30 * time.Second
