package emergency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A Verdict is what a Rule decides.
type Verdict string

// The verdicts.
const (
	Force Verdict = "force" // the lock is taken
	Deny  Verdict = "deny"  // the request fails
	Ask   Verdict = "ask"   // people decide
)

// A Rule decides about the requests that it fits.
type Rule struct {
	// Name is for the audit trail, for example "approvals.rules[0]".
	Name string

	// Requestor and Victim say whom it fits: the request, and each of the holders
	// that are in its way. The name of a holder's job is its owner, and its labels
	// are not known.
	Requestor, Victim override.Match

	Then Verdict
}

func (r Rule) fits(p lockguard.Pending) bool {
	requestor := override.Subject{Scope: p.Subject.Scope, Job: p.Job, Labels: p.Labels}
	if !r.Requestor.Fits(requestor, p.Subject.Priority) {
		return false
	}
	for _, h := range p.Holders {
		if !r.Victim.Fits(override.Subject{Scope: p.Subject.Scope, Job: h.Owner}, h.Priority) {
			return false
		}
	}
	return true
}

// DefaultDeadline is how long people have to decide.
const DefaultDeadline = 15 * time.Minute

// Policy says how Approvals decide. It may change while they do.
type Policy struct {
	// Deadline is how long people have to decide; then the request fails.
	// Defaults to DefaultDeadline.
	Deadline time.Duration

	// Rules decide by themselves: the first one that fits. Where none fits,
	// people are asked.
	Rules []Rule
}

// A Forum is where people are asked: the board in ZooKeeper (OnBoard), or
// workflows of a Temporal server (temporal.NewApprovals).
type Forum interface {
	// Ask puts a question before people and returns their answer, or that of the
	// deadline. It returns when ctx ends, and takes the question back.
	Ask(ctx context.Context, q lockguard.Question) (lockguard.Answer, error)
}

// A Witness says whether the approval of a person is to be believed. The error says
// why that cannot be found out; the request fails then.
type Witness func(ctx context.Context, q lockguard.Question, answer lockguard.Answer) (believed bool, err error)

// ApprovalsConfig says what Approvals work with. Forum has to be set.
type ApprovalsConfig struct {
	// Auditor writes down what is asked, and what rules and the deadline have
	// decided; a person's decision is written down by who takes it, if that one
	// can. nil: nothing is.
	Auditor lockguard.Auditor

	// Forum is where people are asked.
	Forum Forum

	// Logger gets an error, which is an alert, when a decision is needed.
	// Defaults to silence.
	Logger *slog.Logger

	Policy Policy

	// Witness is asked before a person's approval is acted on. Defaults to none,
	// for a Forum where only operators can answer, such as the board.
	Witness Witness
}

// Approvals decide about polite requests whose holders do not finish their
// cleanup in time: by a rule at once, or else by asking people, wherever the
// Forum does that.
type Approvals struct {
	cfg    ApprovalsConfig
	log    *slog.Logger
	policy atomic.Pointer[Policy]
}

var _ lockguard.Approver = (*Approvals)(nil)

// NewApprovals validates cfg.
func NewApprovals(cfg ApprovalsConfig) (*Approvals, error) {
	if cfg.Forum == nil {
		return nil, errors.New("emergency: the forum is nil; give OnBoard of a lock.Client, or that of a workflow")
	}
	a := &Approvals{cfg: cfg, log: cfg.Logger}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.SetPolicy(cfg.Policy)
	return a, nil
}

// SetPolicy has all that is asked from now on decided like this.
func (a *Approvals) SetPolicy(p Policy) {
	if p.Deadline <= 0 {
		p.Deadline = DefaultDeadline
	}
	a.policy.Store(&p)
}

// DeniedError says that a request was not allowed to take its lock by force.
type DeniedError struct {
	Scope  string
	ID     string // of the approval; "" when a rule has decided
	By     string // a person, a rule, or the deadline
	Reason string
}

func (e *DeniedError) Error() string {
	by := e.By
	if e.ID != "" {
		by = fmt.Sprintf("%s (%s)", e.By, e.ID)
	}
	return fmt.Sprintf("taking lock %q by force was denied by %s: %s", e.Scope, by, e.Reason)
}

// Approve decides, as lockguard.Approver has it. It returns nil, a *DeniedError,
// why the question could not be asked, or the cause of ctx.
func (a *Approvals) Approve(ctx context.Context, p lockguard.Pending) (lockguard.Decision, error) {
	policy := a.policy.Load()
	for _, r := range policy.Rules {
		if !r.fits(p) {
			continue
		}
		if r.Then == Ask {
			break
		}
		d := lockguard.Decision{By: r.Name, Reason: "the rule says " + string(r.Then)}
		return a.decided(ctx, p, lockguard.Answer{Decision: d, Approved: r.Then == Force})
	}
	return a.ask(ctx, p, policy.Deadline)
}

// ask asks people.
func (a *Approvals) ask(ctx context.Context, p lockguard.Pending, patience time.Duration) (lockguard.Decision, error) {
	q := lockguard.Question{Pending: p, Patience: patience, Opened: func(ctx context.Context, o lockguard.Opened) {
		a.opened(ctx, p, o)
	}}
	return a.heed(ctx, q)
}

// heed asks, and does what is answered if that is to be believed.
func (a *Approvals) heed(ctx context.Context, q lockguard.Question) (lockguard.Decision, error) {
	p := q.Pending
	answer, err := a.cfg.Forum.Ask(ctx, q)
	switch {
	case ctx.Err() != nil:
		return lockguard.Decision{ID: answer.ID}, context.Cause(ctx)
	case err != nil:
		return lockguard.Decision{ID: answer.ID},
			fmt.Errorf("the takeover of lock %q could not be put to approval: %w", p.Subject.Scope, err)
	}
	if !answer.Approved || !answer.Person || a.cfg.Witness == nil {
		return a.decided(ctx, p, answer)
	}
	switch believed, err := a.cfg.Witness(ctx, q, answer); {
	case err != nil:
		return lockguard.Decision{ID: answer.ID},
			fmt.Errorf("lock %q not taken by force: whether the approval %s of %s is to be believed is not known: %w",
				p.Subject.Scope, answer.ID, answer.By, err)
	case believed:
		answer.Recorded = true
		return a.decided(ctx, p, answer)
	}
	a.log.Error("an approval is ignored: no operator has put it on record",
		"approval", answer.ID, "scope", p.Subject.Scope, "by", answer.By)
	if answer.Before {
		q.Fresh = true
		return a.heed(ctx, q)
	}
	answer.Reason = fmt.Sprintf("the approval of %s is not believed: no operator has put it on record; "+
		"decide with lockkeeper approvals, or say approvals: {temporal: {trust: temporal}}", answer.By)
	answer.Approved, answer.By = false, "the guard"
	return a.decided(ctx, p, answer)
}

// opened alerts people.
func (a *Approvals) opened(ctx context.Context, p lockguard.Pending, o lockguard.Opened) {
	entry := a.entry(p, opstore.AuditApprovalOpen, o.ID)
	if o.Attached {
		entry.After = map[string]string{"question": "goes on"}
	}
	if err := a.audit(ctx, entry); err != nil {
		a.log.Error("an open approval was not put on record", "approval", o.ID, "error", err)
	}
	a.log.Error("an approval is open: the holder has not released the lock in time",
		"approval", o.ID, "scope", p.Subject.Scope, "requestor", p.Subject.Owner, "priority", int(p.Subject.Priority),
		"holders", owners(p.Holders), "waited", p.Err.Waited.Round(time.Second), "deadline", o.Patience.Round(time.Second),
		"approve", "lockkeeper approvals approve "+o.ID+" --reason WHY", "force",
		"lockkeeper approvals force "+o.ID+" --reason WHY", "deny", "lockkeeper approvals deny "+o.ID+" --reason WHY")
}

// decided makes a decision known.
func (a *Approvals) decided(ctx context.Context, p lockguard.Pending, d lockguard.Answer) (lockguard.Decision, error) {
	word := opstore.Decision{Approved: d.Approved, Force: !d.AfterGrace}.Word()
	a.log.Warn("approval decided", "decision", word, "approval", d.ID, "scope", p.Subject.Scope,
		"requestor", p.Subject.Owner, "holders", owners(p.Holders), "by", d.By, "reason", d.Reason)
	if !d.Recorded {
		entry := a.entry(p, opstore.AuditApprovalDecide, d.ID)
		entry.By, entry.Reason = d.By, d.Reason
		entry.After = map[string]string{"decision": word}
		if err := a.audit(ctx, entry); err != nil && d.Approved {
			return lockguard.Decision{}, fmt.Errorf(
				"lock %q not taken by force: that %s allows it could not be put on record: %w", p.Subject.Scope, d.By, err)
		}
	}
	if d.Approved {
		return d.Decision, nil
	}
	return d.Decision, &DeniedError{Scope: p.Subject.Scope, ID: d.ID, By: d.By, Reason: d.Reason}
}

func (a *Approvals) entry(p lockguard.Pending, action opstore.AuditAction, id string) opstore.AuditEntry {
	entry := opstore.AuditEntry{
		Action: action, Phase: opstore.AuditOutcome, Scope: p.Subject.Scope, Job: p.Job, By: p.Subject.Owner, Approval: id,
		Reason:    p.Subject.Message,
		Requestor: &opstore.AuditParty{Owner: p.Subject.Owner, Priority: p.Subject.Priority},
		Result:    opstore.AuditDone,
	}
	for _, h := range p.Holders {
		entry.Victims = append(entry.Victims, h.Party())
	}
	return entry
}

func (a *Approvals) audit(ctx context.Context, entry opstore.AuditEntry) error {
	if a.cfg.Auditor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return a.cfg.Auditor.Audit(ctx, entry)
}

func owners(all []lock.Contender) string {
	return words.Join(all, ", ", func(c lock.Contender) string { return c.Owner })
}
