package lockguard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Overrides knows the overrides that are in force.
type Overrides interface {
	// InForce returns the overrides that are in force now, and a channel that is
	// closed when that may have changed, for whatever reason: also because an
	// override has ended. It must not block. The Set is left alone by both sides.
	InForce() (override.Set, <-chan struct{})
}

// WithOverrides makes requests subject to operators' overrides, new ones and those
// that wait. Defaults to none. What becomes of a request is override.Set.Apply's to
// say; how it comes about:
//
//   - Boost, cap, extend: the request asks for that from then on, in the place that
//     its priority gives it. The acquire timeout is what it is when the call begins.
//     A boost is named to the holders that the request then preempts; caps and
//     extensions are no reason to stop.
//   - Freeze: the request leaves the queue, and is made anew when that ends, within
//     what is left of its acquire timeout; else it fails with a *FrozenError. A grant
//     that comes at the same time is given back before the work begins. Of several
//     locks none is kept while one is frozen.
//   - Bypass: the work runs at once, with a Hold that has no lock: its token is 0,
//     nothing can happen to it. It goes on when the bypass ends. Of several locks the
//     others are taken.
//   - Holders: an extension makes their lease as long, counted from the grant, unless
//     another request preempts them. Nothing else is done to them.
//
// A Hold that is nested in another one is not a request, and is left alone.
func WithOverrides(overrides Overrides) Option {
	return func(g *Guard) error {
		if overrides == nil {
			return errors.New("lockguard: WithOverrides: the overrides are nil; leave the option out for none")
		}
		g.overrides = overrides
		return nil
	}
}

// vouch says whether an override is in force: what recipes asks of requests at
// emergency priority. Where there are no overrides it looks at the board itself.
func (g *Guard) vouch(_ context.Context, m lock.Mark) error {
	set, _ := g.overrides.InForce()
	if slices.ContainsFunc(set, func(o override.Override) bool { return o.ID == m.ID }) {
		return nil
	}
	return errors.New("this process knows of none of that name in force, from ZooKeeper or from its file")
}

// An Auditor puts on record what is done to holders against their will, and
// what overrides do. Everything else about audit is an Observer.
type Auditor interface {
	// Audit returns nil when entry is on record. An error keeps the Guard from
	// doing what the entry announces, see WithAuditor. Its panics are errors.
	Audit(ctx context.Context, entry opstore.AuditEntry) error
}

// WithAuditor has the auditor called before a takeover, and before an override
// acts. Defaults to none: nothing is on record.
//
// A takeover is announced with the holders that are to be evicted as its victims
// (AuditTakeover); without a record the request fails. What Guard.Override does is
// announced likewise (AuditOverrideAct). In both, Act is the ID of the request, as
// in its events.
//
// What an override makes of a request, or does to a holder, is announced once for
// each lock, job and owner (AuditOverrideAct; Before and After are the terms that
// it changes). That may take 5s. Without a record a boost, an extension or a bypass
// does not act, as if it were not there, until a try with the next change of the
// overrides, or with the next request, succeeds; a freeze or a cap acts all the
// same, because that is the safe side. Either is logged.
func WithAuditor(auditor Auditor) Option {
	return func(g *Guard) error {
		if auditor == nil {
			return errors.New("lockguard: WithAuditor: the auditor is nil; leave the option out for none")
		}
		g.auditor = auditor
		return nil
	}
}

// An Approver decides what becomes of a polite request whose holder does not
// finish its cleanup in time: by asking people, by a rule, or in a workflow.
type Approver interface {
	// Approve returns when it is decided: nil to take the lock by force, else
	// why not. Its context ends when the decision is not needed any more: the
	// holders have gone (its cause is ErrHoldersGone then), or the request was
	// given up or frozen. It must return then.
	// What it decided about some holders does not concern those who come to hold
	// the lock after them: it is called again for these.
	// A panic is a no.
	Approve(ctx context.Context, pending Pending) (Decision, error)
}

// A Decision says who has decided about a Pending request, for the audit trail.
type Decision struct {
	ID     string // of the approval
	By     string // a person, or a rule
	Reason string

	// AfterGrace leaves the holders what is left of their cleanup timeout, counted
	// from when the first of them was preempted. Defaults to false: the lock is
	// taken at once.
	AfterGrace bool
}

// ErrHoldersGone is the cause with which the context of Approver.Approve ends
// when the holders about whom was asked hold the lock no more: no decision about
// them is needed any more.
var ErrHoldersGone = errors.New("lockguard: the holders that were asked about hold the lock no more")

// Pending is a polite request that could not finish its preemption.
type Pending struct {
	Subject Subject // of the request
	Job     string
	Labels  map[string]string
	Holders []lock.Contender
	Err     *lock.CleanupPendingError // what the request fails with unless it is approved
}

// A Question is a Pending request that is put before people.
type Question struct {
	Pending

	// Fresh: an answer that was given before is not wanted.
	Fresh bool

	// Patience is how long they have to answer. Positive.
	Patience time.Duration

	// Opened is called when they can see it, and again when it had to be put before
	// them anew. It may be nil.
	Opened func(ctx context.Context, o Opened)
}

// Request is what people are asked.
func (q Question) Request() opstore.ApprovalRequest {
	r := opstore.ApprovalRequest{
		Scope: q.Subject.Scope, Job: q.Job, Labels: q.Labels, Reason: q.Subject.Message,
		Requestor: opstore.AuditParty{Owner: q.Subject.Owner, Priority: q.Subject.Priority}, Deadline: q.Patience,
	}
	if q.Err != nil {
		r.Waited = q.Err.Waited
	}
	for _, h := range q.Holders {
		r.Holders = append(r.Holders, h.Party())
	}
	return r
}

// Opened says where a Question is to be answered.
type Opened struct {
	ID       string        // of the approval
	Patience time.Duration // that is left

	// Attached: it was asked before, and has not been answered since: by a process
	// that has ended, or by another one with the same request.
	Attached bool
}

// An Answer is what people, or the end of their time, say to a Question.
type Answer struct {
	Decision
	Approved bool

	// Person: a person has answered, Decision.By.
	Person bool

	// Before: the decision was made for an earlier process that asked the same and
	// ended before it got the answer.
	Before bool

	// Recorded: the decision is already in the audit trail.
	Recorded bool
}

// AnswerOf is what d says to the question with that ID.
func AnswerOf(id string, d opstore.Decision) Answer {
	return Answer{
		Decision: Decision{ID: id, By: d.By, Reason: d.Reason, AfterGrace: d.Approved && !d.Force}, Approved: d.Approved,
	}
}

// WithApprover lets a person decide when the waiting timeout of a polite request
// is over. The request keeps its place in the queue meanwhile, and gets the
// lock if the holder goes; the acquire timeout bounds this too. Approved, it takes
// the lock by force, at once or as Decision.AfterGrace says. Denied, it fails with a *lock.CleanupPendingError
// and the reason. Defaults to none: it fails with that error at once.
func WithApprover(approver Approver) Option {
	return func(g *Guard) error {
		if approver == nil {
			return errors.New("lockguard: WithApprover: the approver is nil; leave the option out for none")
		}
		g.approver = approver
		return nil
	}
}
