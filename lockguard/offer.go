package lockguard

import (
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// errWithdrawn is why a request leaves the queue that is made again, or is not
// needed any more, because overrides have changed.
var errWithdrawn = errors.New("withdrawn: overrides have changed")

// An offer is what a request asks for by now, and by which overrides.
type offer struct {
	terms  lock.Revision
	effect override.Effect
}

// offerLocked makes an offer of an effect, and of what was decided about the request.
func (a *attempt) offerLocked(effect override.Effect) offer {
	o := offer{effect: effect, terms: lock.Revision{Terms: effect.Terms, Override: a.request.claim.mark}}
	switch {
	case a.request.errand.early():
		o.terms.MinRuntime = 0
	case o.terms.MinRuntime == a.request.claim.asked.LeaseTimeout:
		o.terms.MinRuntime = o.terms.LeaseTimeout // nothing but the end of the lease ends the hold
	}
	if m := markOf(effect); m != nil {
		o.terms.Override = m
	}
	if a.approval != nil {
		o.terms.Forceful, o.terms.WaitingTimeout = true, new(a.spared)
	}
	switch {
	case a.denied != nil:
		o.terms.Withdraw = a.denied
	case effect.Frozen != nil, effect.Bypass != nil:
		o.terms.Withdraw = errWithdrawn
	}
	return o
}

// markOf names the override in whose name the request preempts holders: the
// last boost that made it more than it was. With caps and extensions alone it
// preempts of its own accord.
func markOf(effect override.Effect) *lock.Mark {
	for _, o := range slices.Backward(effect.Applied) {
		if o.Kind == override.Boost {
			return &lock.Mark{ID: o.ID, By: o.By, Reason: o.Reason}
		}
	}
	return nil
}

// beginLocked starts an attempt with these terms.
func (a *attempt) beginLocked(effect override.Effect) {
	a.made = a.offerLocked(effect)
	a.offers = []offer{a.made}
	a.revised = make(chan struct{})
	a.reviseLocked(a.made)
}

// publishLocked offers other terms to the layer below.
func (a *attempt) publishLocked(effect override.Effect) {
	if a.request.over {
		return
	}
	o := a.offerLocked(effect)
	last := a.offers[len(a.offers)-1]
	if sameTerms(o.terms, last.terms) && sameEffect(o.effect, last.effect) {
		return
	}
	a.offers = append(a.offers, o)
	close(a.revised)
	a.revised = make(chan struct{})
}

// terms says what the request asks for by now. See lock.Request.Revise.
func (a *attempt) terms() (lock.Revision, <-chan struct{}) {
	a.request.mu.Lock()
	defer a.request.stream.deliverSoon()
	defer a.request.mu.Unlock()
	last := a.offers[len(a.offers)-1]
	if !a.taken { // with these the request is made
		a.taken = true
		a.reviseLocked(last)
	}
	return last.terms, a.revised
}

// revisedLocked is called with the terms that the request has in ZooKeeper.
func (a *attempt) revisedLocked(terms lock.Revision) {
	for i, o := range slices.Backward(a.offers) {
		if sameTerms(o.terms, terms) {
			a.offers = a.offers[i:]
			a.reviseLocked(o)
			return
		}
	}
}

func (a *attempt) reviseLocked(o offer) {
	if o.terms.Withdraw != nil {
		return
	}
	a.made = o
	a.request.stream.change(func(about *Subject) { about.Priority = o.terms.Priority })
	if !sameEffect(o.effect, a.request.told) {
		a.request.told = o.effect
		a.request.stream.note(Overridden{o.effect})
	}
}

func sameTerms(a, b lock.Revision) bool {
	return a.Equal(b.Terms) && same(a.Override, b.Override) && (a.Withdraw == nil) == (b.Withdraw == nil)
}

// sameEffect compares what overrides have made of a request, which the request
// asks for.
func sameEffect(a, b override.Effect) bool {
	return slices.EqualFunc(a.Applied, b.Applied, func(a, b override.Override) bool {
		return fingerprint(a) == fingerprint(b)
	})
}

// same compares what two pointers point to.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
