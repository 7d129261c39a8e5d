package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// A Request declares the lock that a piece of work needs. The zero value asks
// for the exclusive lock at the lowest priority and waits as long as its
// context lives.
type Request struct {
	priority.Terms

	// Identity is what the request says of itself. Hold lets others join the grant and adopt it, also from other
	// processes: PriorityLock.Join, PriorityLock.Adopt.
	priority.Identity

	// ForCleanup joins a hold although it is being preempted: to help it clean up.
	// It has a meaning for PriorityLock.Join only.
	ForCleanup bool

	// Under are the IDs of the grants that the same work holds while it waits for
	// this one (Grant.ID). With them a circle of waiting can be seen from
	// outside, see State.
	Under []string

	// Override, when set, is the operator's override that the request is made for,
	// or that has changed it. The holders that it preempts or evicts learn of it.
	Override *Mark

	// Vouch, when set, says whether that override is in force: nil, or why not. It
	// is asked, in place of a look at the OverrideBoard, by a request at
	// priority.Emergency, which needs one: before the request is made, preempts a
	// holder, or takes the lock. It is for a program that has overrides from
	// elsewhere, such as a file.
	Vouch func(ctx context.Context, m Mark) error

	// Patient stays in the queue when the WaitingTimeout of a polite request is
	// over, and tells CleanupPending, once for its holders, instead of failing with a
	// *CleanupPendingError.
	Patient bool

	// Revise, when set, says what is asked for by now, in place of Terms and Override, and gives a channel that is closed
	// when that may have changed. It is asked before the request is made, and again after each change for as long as the
	// request waits: see Revision. It must not block. A channel that is closed already is taken for one that is closed in
	// 10 ms.
	Revise func() (Revision, <-chan struct{})

	// Authorize, when set, is called before this request evicts holders, each
	// time that it is about to: it has to return nil for that to happen. Once it
	// has, it is asked again for other holders or after a change of the terms
	// alone. An error ends the request.
	Authorize func(ctx context.Context, holders []Contender) error

	// Notify, when set, is called with each Notice of this request and, once
	// granted, of its Grant. Calls come one at a time and must not block. They may
	// use the grant: notices that this causes follow.
	Notify func(Notice)
}

// A Revision is what can change of a request while it waits; nothing of it changes any more when it is
// granted. Mode and AcquireTimeout stay as the request was made with.
//
// A request whose priority changes takes the place that it would have, had it been made just now. It is out
// of the queue at no time, and cannot be granted twice.
type Revision struct {
	priority.Terms
	Override *Mark

	// Withdraw, when set, takes the request out of the queue: it fails with an error that wraps this.
	Withdraw error
}

// A Mark names an operator's override, for the requests and holders that it
// affects.
type Mark struct {
	ID     string `json:"id"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// valid returns the mark as it comes back from ZooKeeper.
func (m *Mark) valid() *Mark {
	return &Mark{ID: znode.Valid(m.ID), By: znode.Valid(m.By), Reason: znode.Valid(m.Reason)}
}

// How long the texts of a Mark may be, in bytes.
const (
	maxMarkID     = 64
	maxMarkBy     = 200
	maxMarkReason = 1000
)

// Token is priority.Token.
type Token = priority.Token

// Notice is one thing that happens to a request or to its grant. The lock tells
// those of this package through Request.Notify; package lockguard has those that
// it alone knows, and tells both. The set of notices is closed.
type Notice interface {
	// Kind returns the name of the notice, such as "preempt_sent". It is stable.
	Kind() string
}

type (
	// Queued: the request stands in the queue behind another. Sent once for each
	// place in the queue that the request takes (again after Requeued).
	Queued struct {
		Position int         // 1 is next in line
		Holders  []Contender // who has the lock
	}

	// Joined: the request stands in the queue under this ID (Grant.ID), so that a
	// Reference can name it. Sent only for requests with a Hold, again after
	// Requeued and after a change of the priority.
	Joined struct{ ID string }

	// Blocked: the request is next in line, and other holders are in its way than
	// the last Blocked named.
	Blocked struct{ Holders []Contender }

	// Displaced: the request was next in line until a more important one came.
	// It keeps its place behind that one.
	Displaced struct{ By Contender }

	// Delayed: the lock is free and the request next in line, but has to wait: the
	// hold of others ended uncleanly, see Request.LockDelay. Sent again when that is
	// because of others.
	Delayed struct {
		After []Delay
		Until time.Time // on the local clock, at the latest
	}

	// Requeued: the request's session ended. It queues again under a new name,
	// and has lost its place.
	Requeued struct{ Cause error }

	// PreemptSent: the request preempted a holder.
	PreemptSent struct {
		Holder Contender
		Reason priority.Reason
		Grace  time.Duration
	}

	// Revised: the request has changed its terms by now. After a change of its
	// priority it gets its position again.
	Revised struct{ Revision }

	// CleanupPending: the waiting timeout of a Patient request is over, and the
	// holders have not gone.
	CleanupPending struct {
		Holders []Contender
		Waited  time.Duration // since the first of them was asked to release
	}

	// PendingOver: holders that CleanupPending named have gone, and others hold
	// the lock now. These are preempted in their turn, under the terms that hold
	// when Notify has returned; CleanupPending follows anew if they do not go.
	PendingOver struct{ Holders []Contender }

	// TakenOver: the request took the lock from holders whose grace was over.
	TakenOver struct{ From []Contender }

	// PreemptRequested: the holder is preempted, that is asked to release. It
	// still holds the lock.
	PreemptRequested struct {
		By       Contender
		Reason   priority.Reason
		Grace    time.Duration // in all
		Deadline time.Time     // end of the grace on the local monotonic clock, never late
		Forceful bool
		Trace    string // traceparent of the preemptor, "" when it made none
		Override *Mark  // for which the preemptor asks; nil: of its own accord
	}

	// PreemptionWithdrawn: no request preempts the holder any more. The context of
	// a lockguard.Hold stays cancelled; its holder cleans up and releases all the
	// same.
	PreemptionWithdrawn struct{}

	// AtRisk: ZooKeeper has not answered for a quarter of the session timeout, or the deadline is less than a
	// sixteenth of it away. The lock is still held, and will be lost at the deadline unless an answer comes
	// before. Sent again for each silence.
	AtRisk struct{ Deadline time.Time } // on the local monotonic clock

	// RiskOver: ZooKeeper answers again after AtRisk, in time.
	RiskOver struct{}

	// Lost: the lock is no longer held. No other notice follows.
	Lost struct{ Err *LostError }
)

func (Queued) Kind() string              { return "queued" }
func (Joined) Kind() string              { return "joined" }
func (Blocked) Kind() string             { return "blocked" }
func (Displaced) Kind() string           { return "displaced" }
func (Delayed) Kind() string             { return "delayed" }
func (Requeued) Kind() string            { return "requeued" }
func (Revised) Kind() string             { return "revised" }
func (CleanupPending) Kind() string      { return "cleanup_pending" }
func (PendingOver) Kind() string         { return "pending_over" }
func (PreemptSent) Kind() string         { return "preempt_sent" }
func (TakenOver) Kind() string           { return "taken_over" }
func (PreemptRequested) Kind() string    { return "preempt_requested" }
func (PreemptionWithdrawn) Kind() string { return "preemption_withdrawn" }
func (AtRisk) Kind() string              { return "at_risk" }
func (RiskOver) Kind() string            { return "risk_over" }
func (Lost) Kind() string                { return "lost" }

// complete fills in defaults and reports everything that can never work.
func (r *Request) complete(c *Client) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &zkclient.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if r.Owner == "" {
		r.Owner = fmt.Sprintf("%s:%d", c.Host(), c.PID())
	}
	r.Terms = r.WithDefaults()
	errs = append(errs, r.Terms.ValidateRequest(), r.Identity.ValidateRequest())
	if o := r.Override; o != nil {
		r.Override = o.valid()
		for _, text := range []struct {
			field, value string
			limit        int
		}{{"id", o.ID, maxMarkID}, {"by", o.By, maxMarkBy}, {"reason", o.Reason, maxMarkReason}} {
			if len(text.value) > text.limit {
				bad("override", "its %s takes %d bytes; the limit is %d", text.field, len(text.value), text.limit)
			}
		}
	}
	if len(r.Under) > maxUnder {
		bad("under", "names %d grants; the limit is %d", len(r.Under), maxUnder)
	}
	return errors.Join(errs...)
}

// rules is what the rulebook needs to know of a request.
func (r *Request) rules() priority.Request {
	return priority.Request{
		Level: r.Priority, Mode: r.Mode, WaitingTimeout: r.WaitingTimeout, Forceful: r.Forceful,
		PreemptDelta: r.PreemptDelta, NeverPreempts: r.NeverPreempts,
	}
}
