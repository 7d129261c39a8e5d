package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Reference names a Hold, or a request for one, across processes: see
// Hold.Reference, Ticket.Reference, Guard.Join and Guard.Adopt.
type Reference = lock.Reference

// Reference names the Hold for others, who can join or adopt it; of several locks
// the first, of a nested Hold the outer one. It is of use if the requirement has a
// Hold id: without one, and without the lock (Info.Bypass), its ID or its Hold is
// empty, and it cannot be joined or adopted.
func (h *Hold) Reference() Reference {
	l := h.locks()[0]
	if l.bypass() != nil {
		return Reference{Scope: l.requirement.Scope, Hold: l.requirement.Hold}
	}
	return l.grant.Reference()
}

// A JoinOption changes what Join does.
type JoinOption func(*joining)

type joining struct{ cleanup bool }

// ForCleanup joins a hold to clean up for it, also when it is preempted. The
// context of such a Hold does not end at a preemption, but at the end of the
// grace, with a cause that wraps context.DeadlineExceeded.
func ForCleanup() JoinOption { return func(j *joining) { j.cleanup = true } }

// Join makes the caller a companion of a Hold, in this process or another one: as if
// it were nested, but with a life of its own. It shares the token, the lease and the
// cleanup timeout; the lock is given away when the last companion has been released.
// A preemption of the hold interrupts the member, which learns of it by itself and
// goes on when the process of the other one ends.
//
// Of the requirement, Owner, Message, Job, Labels, Scope, Hold and AcquireTimeout (for
// an answer) count; Scope and Hold must be those of ref, or empty. All other terms are
// those of the hold. No override concerns it.
//
// A preempted hold is not joined, with the cause: *PreemptedError,
// *LeaseExpiredError or *OverriddenError. See ForCleanup. Other errors are
// *RequestError, *lock.NotThereError, *lock.UnavailableError, or the cause of
// ctx.
func (g *Guard) Join(
	ctx context.Context, requirement Requirement, ref Reference, options ...JoinOption,
) (*Hold, error) {
	var j joining
	for _, option := range options {
		option(&j)
	}
	return g.accede(ctx, requirement, ref, func(r lock.Request) (grant, error) {
		r.ForCleanup = j.cleanup
		return g.locker.join(ctx, ref, r)
	}, j.cleanup)
}

// Adopt takes a hold over from a process that has ended, or that is to be relieved:
// the Hold has its token, and what is left of its lease. The process that had it loses it,
// with the reason lock.LossSuperseded. If ref is that of a request that waits,
// Adopt waits for its grant. Exclusive holds whose processes have all died are
// resumed, unless another holder has had the lock since: with the same token, and a
// new lease, that of the requirement. See lock.PriorityLock.Adopt.
//
// A preempted hold can be adopted: the Hold is interrupted from the
// beginning, and has what is left of the grace.
//
// A *lock.NotThereError says that there is nothing to adopt: the lock has to be
// asked for anew, by Acquire; if its Held is set, there are others that can be
// joined. Scope and Hold of the requirement must be those of ref, or empty; its other
// terms count if the hold is resumed, Owner, Message, Job, Labels and AcquireTimeout
// always. Other errors are those of Acquire. No override concerns it.
func (g *Guard) Adopt(ctx context.Context, requirement Requirement, ref Reference) (*Hold, error) {
	return g.accede(ctx, requirement, ref, func(r lock.Request) (grant, error) {
		return g.locker.adopt(ctx, ref, r)
	}, false)
}

// accede acquires a Hold on a lock that is held already.
func (g *Guard) accede(
	ctx context.Context, requirement Requirement, ref Reference, acquire func(lock.Request) (grant, error), cleanup bool,
) (*Hold, error) {
	requirement, err := requirement.of(ref)
	if err != nil {
		return nil, err
	}
	r := newRequest(ctx, g, requirement.withDefaults(g.owner))
	r.errand.under = heldBy(ctx)
	hold, err := r.accede(ctx, acquire, cleanup)
	if err != nil {
		return nil, r.refused(ctx, err)
	}
	hold.dress()
	return hold, nil
}

// of returns r as a requirement for what ref names.
func (r Requirement) of(ref Reference) (Requirement, error) {
	refuse := func(field, mine, its string) error {
		return &RequestError{
			Field: field, Reason: fmt.Sprintf("%q is not that of the reference, %q; leave it out", mine, its),
		}
	}
	var problems []error
	if r.Scope != "" && r.Scope != ref.Scope {
		problems = append(problems, refuse("scope", r.Scope, ref.Scope))
	}
	if r.Hold != "" && r.Hold != ref.Hold {
		problems = append(problems, refuse("hold", r.Hold, ref.Hold))
	}
	r.Scope, r.Hold = ref.Scope, ref.Hold
	return r, errors.Join(append(problems, r.Validate())...)
}

func (r *request) accede(ctx context.Context, acquire func(lock.Request) (grant, error), cleanup bool) (*Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := &attempt{request: r}
	r.mu.Lock()
	r.attempt = a
	r.mu.Unlock()
	g, err := acquire(r.declared(a))
	if pending := (*lock.PreemptPendingError)(nil); errors.As(err, &pending) {
		err = causeOf(pending.By, r.requirement.Scope, r.requirement.LeaseTimeout)
		r.mu.Lock()
		r.asked = err
		r.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return r.receive(ctx, g, func(token Token, since time.Time) (*Hold, error) {
		return r.openMember(ctx, g, token, since, cleanup)
	})
}

// openMember returns the first Hold on a grant that has joined or adopted: what
// preempted the hold before preempts it, too.
func (r *request) openMember(ctx context.Context, g grant, token Token, since time.Time, cleanup bool) (*Hold, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost != nil:
		return nil, r.lost
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	l := r.heldSince(since, g)
	l.heldUnder(g.Terms())
	l.lease.end = g.LeaseDeadline()
	r.stream.change(func(about *Subject) {
		about.Token, about.Mode, about.Priority = token, l.requirement.Mode, l.requirement.Priority
	})
	hold := r.openLocked(ctx, l, nil, Acquired{since.Sub(r.limit.start)})
	l.mu.Lock()
	defer l.mu.Unlock()
	hold.cleansUp = cleanup
	for _, n := range r.asks {
		l.askLocked(n)
	}
	return hold, nil
}
