package lockguard

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errWithdrawn is why a request leaves the queue that is made again, or is not
// needed any more, because overrides have changed.
var errWithdrawn = errors.New("withdrawn: overrides have changed")

// An offer is what a request asks for by now, and by which overrides.
type offer struct {
	terms  recipes.Revision
	effect override.Effect
}

// offerOf makes an offer of an effect, and of what was decided about the request.
func (l *heldLock) offerLocked(effect override.Effect) offer {
	o := offer{effect: effect, terms: recipes.Revision{Terms: effect.Terms, Override: l.mark}}
	switch {
	case l.early:
		o.terms.MinRuntime = 0
	case o.terms.MinRuntime == l.claim.asked.LeaseTimeout:
		o.terms.MinRuntime = o.terms.LeaseTimeout // nothing but the end of the lease ends the hold
	}
	if m := markOf(effect); m != nil {
		o.terms.Override = m
	}
	if l.approval != nil {
		o.terms.Forceful, o.terms.WaitingTimeout = true, new(l.spared)
	}
	switch {
	case l.denied != nil:
		o.terms.Withdraw = l.denied
	case effect.Frozen != nil, effect.Bypass != nil:
		o.terms.Withdraw = errWithdrawn
	}
	return o
}

// markOf names the override in whose name the request asks holders to go: the
// last boost that made it more than it was. With caps and extensions alone it
// asks of its own accord.
func markOf(effect override.Effect) *recipes.Mark {
	for _, o := range slices.Backward(effect.Applied) {
		if o.Kind == override.Boost {
			return &recipes.Mark{ID: o.ID, By: o.By, Reason: o.Reason}
		}
	}
	return nil
}

// beginLocked starts a request with these terms.
func (l *heldLock) beginLocked(effect override.Effect) {
	l.approval, l.denied, l.deciding = nil, nil, false
	l.taken = false
	l.made = l.offerLocked(effect)
	l.offers = []offer{l.made}
	l.revised = make(chan struct{})
	l.reviseLocked(l.made)
}

// publishLocked offers other terms to the layer below.
func (l *heldLock) publishLocked(effect override.Effect) {
	if l.phase != asking {
		return
	}
	o := l.offerLocked(effect)
	last := l.offers[len(l.offers)-1]
	if sameTerms(o.terms, last.terms) && sameEffect(o.effect, last.effect) {
		return
	}
	l.offers = append(l.offers, o)
	close(l.revised)
	l.revised = make(chan struct{})
}

// terms says what the request asks for by now. See recipes.Request.Revise.
func (l *heldLock) terms() (recipes.Revision, <-chan struct{}) {
	l.mu.Lock()
	defer l.stream.deliverSoon()
	defer l.mu.Unlock()
	last := l.offers[len(l.offers)-1]
	if !l.taken { // with these the request is made
		l.taken = true
		l.reviseLocked(last)
	}
	return last.terms, l.revised
}

// revisedLocked is told with which terms the request stands in ZooKeeper.
func (l *heldLock) revisedLocked(terms recipes.Revision) {
	for i, o := range slices.Backward(l.offers) {
		if sameTerms(o.terms, terms) {
			l.offers = l.offers[i:]
			l.reviseLocked(o)
			return
		}
	}
}

func (l *heldLock) reviseLocked(o offer) {
	if o.terms.Withdraw != nil {
		return
	}
	l.made = o
	l.stream.change(func(about *Subject) { about.Priority = o.terms.Priority })
	if !sameEffect(o.effect, l.told) {
		l.told = o.effect
		l.stream.note(Overridden{o.effect})
	}
}

// grantedLocked makes the requirement what the lock was granted for.
func (l *heldLock) grantedLocked() {
	l.heldUnderLocked(l.made.terms.Terms)
}

// heldUnderLocked makes the requirement what is held. What was declared to begin when all locks are held stays as it was.
func (l *heldLock) heldUnderLocked(terms priority.Terms) {
	terms.MinRuntime, terms.AcquireTimeout = l.requirement.MinRuntime, l.requirement.AcquireTimeout
	l.requirement.Terms = terms
	l.lease, l.prolonged = terms.LeaseTimeout, terms.LeaseTimeout
}

// follow keeps the request, and then the hold, up with the overrides until ctx
// ends.
func (l *heldLock) follow(ctx context.Context, changed, granted <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-granted: // maybe with terms that were old already
			granted = nil
		}
		var set override.Set
		set, changed = l.guard.overrides.InForce()
		l.guard.acts.forget(set)
		if l.isAsking() {
			effect := l.claim.settle(ctx, set, requestActs)
			l.mu.Lock()
			l.publishLocked(effect)
			l.mu.Unlock()
			continue // once granted, it looks again
		}
		l.reconsider(ctx, set)
	}
}

func (l *heldLock) isAsking() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase == asking
}

func sameTerms(a, b recipes.Revision) bool {
	return a.Equal(b.Terms) && same(a.Override, b.Override) && (a.Withdraw == nil) == (b.Withdraw == nil)
}

// sameEffect compares what overrides have made of a request, which the request
// asks for.
func sameEffect(a, b override.Effect) bool {
	return slices.EqualFunc(a.Applied, b.Applied, func(a, b override.Override) bool { return fingerprint(a) == fingerprint(b) })
}

// same compares what two pointers point to.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
