package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// Override takes the lock of one scope, that of o.Match, in the name of an
// operator's override, runs work under it and gives it back. It is what Hold and
// PreemptNow come to; the level priority.Emergency exists here and in boosts
// alone.
//
// The request is exclusive and forceful: it preempts every holder of the lock,
// whatever terms protect it from others, with its cleanup timeout as
// the grace, or o.WaitingTimeout if that is shorter, and then evicts it. Its
// cause is an *OverriddenError, in the end a *LostError with the reason
// LossOverridden. The owner is o.By, the message says o.ID and o.Reason. The
// lease lasts until o.Until. After it, another request may preempt this one, which
// is not released by itself: end ctx for that.
//
// No other override concerns the request, it needs no approval, and it is
// not tried again. With an Auditor it is on record before it is made. ctx must
// not carry a Hold on the scope.
//
// The errors are those of Do. *RequestError: o has no single scope, or has ended.
func (g *Guard) Override(ctx context.Context, o override.Override, work func(ctx context.Context) error) error {
	left := o.Until.Sub(g.now())
	if err := g.refuseOverride(ctx, o, left, work); err != nil {
		return err
	}
	r := Requirement{
		Scope: o.Match.Scope, Owner: o.By, Message: fmt.Sprintf("override %s: %s", o.ID, o.Reason),
		Terms: priority.Terms{
			Priority: priority.Emergency, Forceful: true,
			WaitingTimeout: o.WaitingTimeout, AcquireTimeout: &left, LeaseTimeout: left,
		},
	}.withDefaults("")
	q := newRequest(ctx, g, r)
	q.claim.about.Job = "" // a person's
	q.claim.mark = &lock.Mark{ID: o.ID, By: o.By, Reason: o.Reason}
	q.errand.under = heldBy(ctx)
	hold, err := q.beginOverride(ctx, o)
	if err != nil {
		return q.refused(ctx, err)
	}
	return hold.run(ctx, work)
}

// beginOverride puts an override on record and acquires its lock.
func (r *request) beginOverride(ctx context.Context, o override.Override) (*Hold, error) {
	if r.guard.auditor != nil {
		about := r.stream.subject()
		err := r.guard.audit(ctx, opstore.AuditEntry{
			Act:    about.ID,
			Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent,
			Scope: about.Scope, By: o.By, Reason: o.Reason, Override: o.ID,
			Requestor: &opstore.AuditParty{Owner: o.By, Host: r.guard.host, PID: r.guard.pid, Priority: priority.Emergency},
			After:     map[string]string{string(o.Kind): "until " + o.Until.UTC().Format(time.RFC3339)},
		})
		if err != nil {
			return nil,
				fmt.Errorf("lock %q not taken for override %s: that could not be put on record, and is not done without: %w",
					about.Scope, o.ID, err)
		}
	}
	return r.begin(ctx, ctx, nil)
}

func (g *Guard) refuseOverride(
	ctx context.Context, o override.Override, left time.Duration, work func(ctx context.Context) error,
) error {
	var problems []error
	refuse := func(field, reason string) {
		problems = append(problems, &RequestError{Field: field, Reason: reason})
	}
	if _, err := lock.EscapeScope(o.Match.Scope); err != nil {
		problems = append(problems, err)
	}
	for _, text := range []struct{ field, value string }{{"id", o.ID}, {"by", o.By}, {"reason", o.Reason}} {
		if text.value == "" {
			refuse(text.field, "is empty; an override always has who, why and until when")
		}
	}
	if left < time.Millisecond {
		refuse("until",
			fmt.Sprintf("%s is over already; apply the override anew with a later end", o.Until.UTC().Format(time.RFC3339)))
	}
	if o.WaitingTimeout != nil && *o.WaitingTimeout < 0 {
		refuse("waiting_timeout", "is negative; write 0 for no grace, or leave it out for the cleanup timeout of the holder")
	}
	if _, carried := g.carried(ctx, o.Match.Scope); carried {
		refuse("scope", fmt.Sprintf("the lock %q is held by this context already; override it from outside", o.Match.Scope))
	}
	if work == nil {
		refuse("work", "is nil; give the function that needs the lock")
	}
	return errors.Join(problems...)
}

// now is what the servers' clock says, as far as it is known.
func (g *Guard) now() time.Time {
	if clock, ok := g.locker.(interface{ now() time.Time }); ok {
		return clock.now()
	}
	return time.Now()
}
