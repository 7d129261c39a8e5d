package lockguard

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// An attempt is a request as it is made in ZooKeeper: it ends with the grant or
// a failure, or is withdrawn because of overrides. The next one begins anew.
type attempt struct {
	request  *request
	awaiting context.Context // ends when there is nothing to decide any more
	unfollow func()          // ends the watch on overrides
	granted  chan struct{}   // closed with the grant

	// Guarded by request.mu.
	made    offer                      // with which it stands in ZooKeeper, as far as known
	offers  []offer                    // made, and those that came after it
	revised chan struct{}              // closed with the next offer
	taken   bool                       // the layer below has asked for an offer
	asks    map[string]priority.Reason // for which holders, by ID, were preempted

	deciding bool                    // a decision is awaited or has been made
	unask    context.CancelCauseFunc // what is to be decided now is not needed any more
	askedFor time.Time               // since when the holders are preempted whose takeover is to be decided
	approval *Decision               // by which it may take the lock by force
	spared   time.Duration           // what that leaves the holders
	denied   error                   // why it may not
}

// try makes the request. The error is, or wraps, errWithdrawn when it was to be
// thought over.
func (r *request) try(
	ctx, caller context.Context, effect override.Effect, changed <-chan struct{}, hooks []Hook,
) (hold *Hold, err error) {
	following, unfollow := context.WithCancel(r.stream.ctx)
	awaiting, decided := context.WithCancelCause(following)
	defer func() {
		if err == nil {
			decided(ErrHoldersGone)
		}
		decided(err)
	}()

	a := &attempt{request: r, awaiting: awaiting, unfollow: unfollow, granted: make(chan struct{})}
	r.mu.Lock()
	r.attempt = a
	r.thawLocked()
	a.beginLocked(effect)
	made := a.requestLocked()
	r.mu.Unlock()
	r.stream.deliver()
	if changed != nil {
		go a.follow(following, changed)
	}

	g, err := r.guard.locker.acquire(ctx, r.claim.about.Scope, made)
	if err != nil {
		err = a.unlessDenied(err)
	} else {
		hold, err = r.receive(ctx, g, func(token Token, since time.Time) (*Hold, error) {
			return a.open(ctx, caller, g, token, since, hooks)
		})
	}
	if err != nil {
		unfollow()
		return nil, err
	}
	close(a.granted)
	return hold, nil
}

// requestLocked is the request that is made with the present terms.
func (a *attempt) requestLocked() lock.Request {
	r := a.request
	made := r.declared(a)
	made.Terms, made.Override = a.made.terms.Terms, a.made.terms.Override
	made.AcquireTimeout = r.left()
	if r.claim.mark == nil {
		made.Patient = r.guard.approver != nil
		if r.guard.overrides != nil || made.Patient {
			made.Revise = a.terms
		}
	}
	if r.guard.overrides != nil {
		made.Vouch = r.guard.vouch
	}
	if r.guard.auditor != nil {
		made.Authorize = a.authorize
	}
	return made
}

// declared is the request as it was declared.
func (r *request) declared(a *attempt) lock.Request {
	made := r.requirement.request(r.stream.subject().Trace, func(n lock.Notice) { r.notice(a, n) })
	made.Under = r.errand.under
	return made
}

// open returns the first Hold, unless the lock has to be given away before any
// work was done.
func (a *attempt) open(
	ctx, caller context.Context, g grant, token Token, since time.Time, hooks []Hook,
) (*Hold, error) {
	r := a.request
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost != nil:
		return nil, r.lost
	case r.asked != nil:
		return nil, r.asked
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r.claim.frozen() != nil:
		r.attempt = nil // the outcome of the grant does not matter any more
		return nil, errWithdrawn
	}
	l := r.heldSince(since, g)
	l.heldUnder(a.made.terms.Terms)
	l.unfollow = a.unfollow
	r.stream.change(func(about *Subject) { about.Token = token })
	return r.openLocked(caller, l, hooks, Acquired{since.Sub(r.limit.start)}), nil
}

// follow keeps the request, and then the lock, up with the overrides until ctx
// ends.
func (a *attempt) follow(ctx context.Context, changed <-chan struct{}) {
	r, granted := a.request, a.granted
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-granted: // maybe with terms that were old already
			granted = nil
		}
		var set override.Set
		set, changed = r.guard.overrides.InForce()
		r.guard.acts.forget(set)
		r.mu.Lock()
		asking, held := !r.over, r.held
		r.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return // what the request holds by now is no concern of this attempt
		case asking:
			effect := r.claim.settle(ctx, set, requestActs)
			r.mu.Lock()
			a.publishLocked(effect)
			r.mu.Unlock() // once granted, it reads again
		case held != nil:
			held.reconsider(ctx, set)
		}
	}
}
