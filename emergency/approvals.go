package emergency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes"
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

// ApprovalsConfig says what Approvals work with. Board has to be set.
type ApprovalsConfig struct {
	// Auditor writes down what is asked, and what rules and the deadline have
	// decided; a person's decision is written down by who takes it. nil: nothing
	// is.
	Auditor lockguard.Auditor

	// Board is where people are asked.
	Board *recipes.ApprovalBoard

	// Logger gets an error, which is an alert, when somebody has to decide.
	// Defaults to silence.
	Logger *slog.Logger

	Policy Policy
}

// Approvals decide about polite requests whose holders do not finish their
// cleanup in time: by a rule at once, or else by asking people. They are one
// lockguard.Approver; another one may ask in a workflow instead.
type Approvals struct {
	cfg    ApprovalsConfig
	log    *slog.Logger
	policy atomic.Pointer[Policy]
}

var _ lockguard.Approver = (*Approvals)(nil)

// NewApprovals validates cfg.
func NewApprovals(cfg ApprovalsConfig) (*Approvals, error) {
	if cfg.Board == nil {
		return nil, errors.New("emergency: the board is nil; give that of a recipes.Client")
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
// why nobody could be asked, or the cause of ctx.
func (a *Approvals) Approve(ctx context.Context, p lockguard.Pending) (lockguard.Decision, error) {
	policy := a.policy.Load()
	for _, r := range policy.Rules {
		if !r.fits(p) {
			continue
		}
		if r.Then == Ask {
			break
		}
		d := recipes.Decision{Approved: r.Then == Force, By: r.Name, Reason: "the rule says " + string(r.Then)}
		return a.decided(ctx, p, "", d)
	}
	return a.ask(ctx, p, policy.Deadline)
}

// ask asks people, anew when the session ends in which they were asked.
func (a *Approvals) ask(ctx context.Context, p lockguard.Pending, patience time.Duration) (lockguard.Decision, error) {
	end := time.Now().Add(patience)
	for pause := again; ; pause = min(2*pause, longAgain) {
		d, id, err := a.askOnce(ctx, p, time.Until(end))
		gone := &recipes.NoApprovalError{}
		switch {
		case err == nil:
			return a.decided(ctx, p, id, d)
		case ctx.Err() != nil:
			return lockguard.Decision{ID: id}, context.Cause(ctx)
		case errors.Is(err, errDeadline):
			d := recipes.Decision{By: "the deadline", Reason: fmt.Sprintf("nobody has decided within %s", patience)}
			return a.decided(ctx, p, id, d)
		case errors.As(err, &gone):
			a.log.Warn("an approval has gone with its ZooKeeper session; it is asked for anew", "approval", id, "scope", p.Subject.Scope)
			wait(ctx, nil, pause) // each question is on record, of which no more than so many are kept
		default:
			return lockguard.Decision{ID: id}, fmt.Errorf("nobody could be asked whether lock %q may be taken by force: %w", p.Subject.Scope, err)
		}
	}
}

// errDeadline is the cause of contexts in which people decide.
var errDeadline = errors.New("nobody has decided in time")

func (a *Approvals) askOnce(ctx context.Context, p lockguard.Pending, patience time.Duration) (d recipes.Decision, id string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errDeadline)
	defer cancel()
	r := recipes.ApprovalRequest{
		Scope: p.Subject.Scope, Job: p.Job, Labels: p.Labels, Reason: p.Subject.Message,
		Requestor: recipes.AuditParty{Owner: p.Subject.Owner, Priority: p.Subject.Priority},
		Waited:    p.Err.Waited, Deadline: patience,
	}
	for _, h := range p.Holders {
		r.Holders = append(r.Holders, h.Party())
	}
	open, err := a.cfg.Board.Open(ctx, r)
	if err != nil {
		return d, "", err
	}
	id = open.ID()
	defer func() { // it goes with the session otherwise
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
		defer cancel()
		_ = open.Close(ctx)
	}()
	entry := a.entry(p, recipes.AuditApprovalOpen, id)
	if err := a.audit(ctx, entry); err != nil {
		a.log.Error("that somebody has to decide was not put on record", "approval", id, "error", err)
	}
	a.log.Error("a lock is not given back in time: somebody has to decide whether it is taken by force",
		"approval", id, "scope", p.Subject.Scope, "requestor", p.Subject.Owner, "priority", int(p.Subject.Priority),
		"holders", owners(p.Holders), "waited", p.Err.Waited.Round(time.Second), "deadline", patience.Round(time.Second),
		"approve", "lockkeeper approvals approve "+id+" --reason WHY", "deny", "lockkeeper approvals deny "+id+" --reason WHY")
	d, err = open.Decision(ctx)
	return d, id, err
}

// decided makes a decision known.
func (a *Approvals) decided(ctx context.Context, p lockguard.Pending, id string, d recipes.Decision) (lockguard.Decision, error) {
	word := "denied"
	if d.Approved {
		word = "approved"
	}
	a.log.Warn("taking a lock by force was "+word, "approval", id, "scope", p.Subject.Scope, "requestor", p.Subject.Owner,
		"holders", owners(p.Holders), "by", d.By, "reason", d.Reason)
	if d.Identity == "" { // else a person has, and has told
		entry := a.entry(p, recipes.AuditApprovalDecide, id)
		entry.By, entry.Reason = d.By, d.Reason
		entry.After = map[string]string{"decision": word}
		if err := a.audit(ctx, entry); err != nil && d.Approved {
			return lockguard.Decision{}, fmt.Errorf("lock %q not taken by force: that %s allows it could not be put on record: %w", p.Subject.Scope, d.By, err)
		}
	}
	decision := lockguard.Decision{ID: id, By: d.By, Reason: d.Reason}
	if d.Approved {
		return decision, nil
	}
	return decision, &DeniedError{Scope: p.Subject.Scope, ID: id, By: d.By, Reason: d.Reason}
}

func (a *Approvals) entry(p lockguard.Pending, action recipes.AuditAction, id string) recipes.AuditEntry {
	entry := recipes.AuditEntry{
		Action: action, Phase: recipes.AuditOutcome, Scope: p.Subject.Scope, Job: p.Job, By: p.Subject.Owner, Approval: id,
		Reason:    p.Subject.Message,
		Requestor: &recipes.AuditParty{Owner: p.Subject.Owner, Priority: p.Subject.Priority},
		Result:    recipes.AuditDone,
	}
	for _, h := range p.Holders {
		entry.Victims = append(entry.Victims, h.Party())
	}
	return entry
}

func (a *Approvals) audit(ctx context.Context, entry recipes.AuditEntry) error {
	if a.cfg.Auditor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return a.cfg.Auditor.Audit(ctx, entry)
}

func owners(all []recipes.Contender) string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Owner
	}
	return strings.Join(names, ", ")
}
