package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A PreemptionReason says why a workflow hold was interrupted.
type PreemptionReason string

const (
	// PreemptionOutranked: a more important request has asked for the lock.
	PreemptionOutranked PreemptionReason = "outranked"

	// PreemptionLeaseExpired: the lease is over, and another request wants the
	// lock.
	PreemptionLeaseExpired PreemptionReason = "lease_expired"

	// PreemptionOverridden: an operator's override has asked for the lock.
	PreemptionOverridden PreemptionReason = "overridden"

	// PreemptionLost: the lock is no longer held.
	PreemptionLost PreemptionReason = "lost"

	// PreemptionCanceled: the workflow was cancelled. No other request wants the lock.
	PreemptionCanceled PreemptionReason = "canceled"
)

// A Preemption says why the body of WithLock was interrupted, and how long the
// lock is there for the cleanup.
type Preemption struct {
	Reason PreemptionReason `json:"reason"`

	// Scope is that of the lock, Token the one with which it was held.
	Scope string          `json:"scope"`
	Token lockguard.Token `json:"token,string"`

	// By is the owner of the request that asks, Priority how important it is;
	// of an override who has made it. "" and 0 without such a request.
	By       string `json:"by,omitempty"`
	Priority int    `json:"priority,omitempty"`

	// Forceful: the lock is taken when the grace is over. Otherwise it stays until
	// the workflow has cleaned up.
	Forceful bool `json:"forceful,omitempty"`

	// Grace is how much time there was for that when the workflow was notified, and
	// Deadline the end of it, by workflow.Now: an estimate, late by as long as the
	// news took. Both are zero after a loss.
	Grace    time.Duration `json:"grace_ns,omitempty"`
	Deadline time.Time     `json:"-"`

	// Message says all that for people.
	Message string `json:"message"`
}

// Held reports whether the lock was held at that time.
func (p Preemption) Held() bool { return p.Reason != PreemptionLost }

// PreemptionOf returns why a body was interrupted that WithLock has returned err
// for, or an activity in it, in a workflow or after it was closed; false if it was
// not.
func PreemptionOf(err error) (Preemption, bool) {
	interrupted, ok := interruptionOf(err)
	return interrupted.Preemption, ok
}

// interruption is the details of an application error that tells of one.
type interruption struct {
	Preemption
	Hold string `json:"hold"` // the id of the hold
}

// interruptionOf looks for the outermost one that err tells of.
func interruptionOf(err error) (interruption, bool) {
	for {
		application, ok := errors.AsType[*sdk.ApplicationError](err)
		if !ok {
			return interruption{}, false
		}
		var found interruption
		switch application.Type() {
		case ErrTypeLockPreempted, ErrTypeLockLost:
			if application.HasDetails() && application.Details(&found) == nil && found.Reason != "" {
				return found, true
			}
		}
		err = application.Unwrap()
	}
}

// error is what becomes of an interruption, caused by err, which may be nil. The
// cancellation of the body is hidden: a workflow that returns it would be closed as
// cancelled by the preemptor.
func (i interruption) error(err error, final bool) error {
	if sdk.IsCanceledError(err) {
		err = errors.New(err.Error())
	}
	kind := ErrTypeLockPreempted
	if !i.Held() {
		kind = ErrTypeLockLost
	}
	options := []func(*sdk.ApplicationErrorOptions){func(o *sdk.ApplicationErrorOptions) { o.Details = []any{i} }}
	if final {
		options = append(options, forGood)
	}
	return failure(kind, i.Message, err, options...)
}

// interruptionBy says what a hold was interrupted by, and until when there is
// time on the local clock. The cause is that of the context of a Hold.
func interruptionBy(cause error, hold lockguard.Reference) (interruption, time.Time) {
	i := interruption{Hold: hold.Hold, Preemption: Preemption{
		Reason: PreemptionLost, Scope: hold.Scope, Token: hold.Token,
	}}
	if cause == nil {
		return i, time.Time{}
	}
	i.Message = cause.Error()
	c := priority.CauseOf(cause)
	switch {
	case c.Kind == priority.KindPreempted:
		i.Reason = PreemptionOutranked
	case c.Kind.IsPreemption():
		i.Reason = PreemptionReason(c.Kind)
	}
	i.By, i.Priority, i.Forceful, i.Grace = c.By, int(c.Priority), c.Forceful, left(c.Deadline)
	return i, c.Deadline
}

// left is how long it is until a time on the local clock; 0 if it is over, or if
// there is none.
func left(until time.Time) time.Duration {
	if until.IsZero() {
		return 0
	}
	return max(0, time.Until(until))
}

// lostBecause is a loss that Temporal knows of, not ZooKeeper.
func lostBecause(hold lockguard.Reference, format string, args ...any) interruption {
	return interruption{Hold: hold.Hold, Preemption: Preemption{
		Reason: PreemptionLost, Scope: hold.Scope, Token: hold.Token,
		Message: fmt.Sprintf("lock %q is no longer held: ", hold.Scope) + fmt.Sprintf(format, args...),
	}}
}

// endedBy translates the error of an activity that has run under a Hold: what its
// context has ended with goes before what it makes of that.
func endedBy(hold context.Context, err error, m membership) error {
	cause := context.Cause(hold)
	if err == nil || cause == nil {
		return err
	}
	if !priority.CauseOf(cause).Kind.EndsHold() {
		return err
	}
	lost, isLost := errors.AsType[*lockguard.LostError](cause)
	i, _ := interruptionBy(cause, m.Reference)
	final := !isLost || lost.Reason != lock.LossSession
	if !final {
		i.Hold = "" // others may hold it yet: the next attempt will know
	}
	return i.error(cmp.Or(err, cause), final)
}
