package lockguard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errWithdrawn is why a request leaves the queue that is made again, or is not
// needed any more, because overrides have changed.
var errWithdrawn = errors.New("withdrawn: overrides have changed")

// A claim is what overrides are asked about: a request as it was declared.
type claim struct {
	guard *Guard
	about override.Subject
	owner string
	asked priority.Terms
}

func (g *Guard) claim(r Requirement) claim {
	return claim{
		guard: g,
		about: override.Subject{Scope: r.Scope, Job: r.Job, Labels: r.Labels},
		owner: r.Owner,
		asked: r.Terms,
	}
}

// frozen returns what keeps the claim from being granted now.
func (c claim) frozen() *override.Override {
	if c.guard.overrides == nil {
		return nil
	}
	set, _ := c.guard.overrides.InForce()
	return set.Apply(c.about, c.asked).Frozen
}

// weigh returns what becomes of the claim by the overrides that are in force
// now, once that is on record, and what is closed when that may have changed.
func (c claim) weigh(ctx context.Context) (override.Effect, <-chan struct{}) {
	if c.guard.overrides == nil {
		return override.Effect{Terms: c.asked}, nil
	}
	set, changed := c.guard.overrides.InForce()
	c.guard.acts.forget(set)
	return c.settle(ctx, set, requestActs), changed
}

// settle applies a set. What helps the request and could not be put on record
// does not act; what holds it up does, because that is the safe side.
func (c claim) settle(ctx context.Context, set override.Set, on actOn) override.Effect {
	if len(set) == 0 {
		return override.Effect{Terms: c.asked}
	}
	for {
		effect := set.Apply(c.about, c.asked)
		failed := c.record(ctx, effect, on)
		if len(failed) == 0 {
			return effect
		}
		set = slices.DeleteFunc(slices.Clone(set), func(o override.Override) bool { return slices.Contains(failed, o.ID) })
	}
}

// An offer is what a request asks for by now, and by which overrides.
type offer struct {
	terms  recipes.Revision
	effect override.Effect
}

// offerOf makes an offer of an effect, and of what was decided about the request.
func (t *tenure) offerLocked(effect override.Effect) offer {
	o := offer{effect: effect, terms: recipes.Revision{Terms: effect.Terms, Override: t.mark}}
	switch {
	case t.early:
		o.terms.MinRuntime = 0
	case o.terms.MinRuntime == t.claim.asked.LeaseTimeout:
		o.terms.MinRuntime = o.terms.LeaseTimeout // nothing but the end of the lease ends the hold
	}
	if m := markOf(effect); m != nil {
		o.terms.Override = m
	}
	if t.approval != nil {
		o.terms.Forceful, o.terms.WaitingTimeout = true, new(t.spared)
	}
	switch {
	case t.denied != nil:
		o.terms.Withdraw = t.denied
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
func (t *tenure) beginLocked(effect override.Effect) {
	t.approval, t.denied, t.deciding = nil, nil, false
	t.taken = false
	t.made = t.offerLocked(effect)
	t.offers = []offer{t.made}
	t.revised = make(chan struct{})
	t.reviseLocked(t.made)
}

// publishLocked offers other terms to the layer below.
func (t *tenure) publishLocked(effect override.Effect) {
	if t.phase != asking {
		return
	}
	o := t.offerLocked(effect)
	last := t.offers[len(t.offers)-1]
	if sameTerms(o.terms, last.terms) && sameEffect(o.effect, last.effect) {
		return
	}
	t.offers = append(t.offers, o)
	close(t.revised)
	t.revised = make(chan struct{})
}

// terms says what the request asks for by now. See recipes.Request.Revise.
func (t *tenure) terms() (recipes.Revision, <-chan struct{}) {
	t.mu.Lock()
	defer t.stream.deliverSoon()
	defer t.mu.Unlock()
	last := t.offers[len(t.offers)-1]
	if !t.taken { // with these the request is made
		t.taken = true
		t.reviseLocked(last)
	}
	return last.terms, t.revised
}

// revisedLocked is told with which terms the request stands in ZooKeeper.
func (t *tenure) revisedLocked(terms recipes.Revision) {
	for i, o := range slices.Backward(t.offers) {
		if sameTerms(o.terms, terms) {
			t.offers = t.offers[i:]
			t.reviseLocked(o)
			return
		}
	}
}

func (t *tenure) reviseLocked(o offer) {
	if o.terms.Withdraw != nil {
		return
	}
	t.made = o
	t.subject.Priority = o.terms.Priority
	if !sameEffect(o.effect, t.told) {
		t.told = o.effect
		t.addLocked(Overridden{o.effect})
	}
}

// grantedLocked makes the requirement what the lock was granted for.
func (t *tenure) grantedLocked() {
	t.heldUnderLocked(t.made.terms.Terms)
}

// heldUnderLocked makes the requirement what is held. What was declared to begin when all locks are held stays as it was.
func (t *tenure) heldUnderLocked(terms priority.Terms) {
	terms.MinRuntime, terms.AcquireTimeout = t.requirement.MinRuntime, t.requirement.AcquireTimeout
	t.requirement.Terms = terms
	t.lease, t.prolonged = terms.LeaseTimeout, terms.LeaseTimeout
}

// protect starts the minimum runtime, if it has not begun with the grant.
func (t *tenure) protect(ctx context.Context) error {
	if !t.early || t.requirement.MinRuntime == 0 {
		return nil
	}
	if err := t.standing(); err != nil {
		return err
	}
	if err := t.grant.Protect(ctx, t.requirement.MinRuntime); err != nil {
		return t.refusal(err)
	}
	return nil
}

// follow keeps the request, and then the hold, up with the overrides until ctx
// ends.
func (t *tenure) follow(ctx context.Context, changed, granted <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-granted: // maybe with terms that were old already
			granted = nil
		}
		var set override.Set
		set, changed = t.guard.overrides.InForce()
		t.guard.acts.forget(set)
		if t.isAsking() {
			effect := t.claim.settle(ctx, set, requestActs)
			t.mu.Lock()
			t.publishLocked(effect)
			t.mu.Unlock()
			continue // once granted, it looks again
		}
		t.reconsider(ctx, set)
	}
}

func (t *tenure) isAsking() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase == asking
}

// reconsider does what overrides do to a holder: a freeze gives back what is
// held while other locks are waited for, an extension lengthens the lease.
func (t *tenure) reconsider(ctx context.Context, set override.Set) {
	if by := set.Apply(t.claim.about, t.claim.asked).Frozen; by != nil {
		t.mu.Lock()
		var b *bundle
		if t.first != nil {
			b = t.first.memberOf
		}
		t.mu.Unlock()
		if b != nil {
			_, _ = b.giveUp(&FrozenError{Scope: t.claim.about.Scope, Override: *by})
		}
	}
	var longer override.Set
	for _, o := range set {
		if o.Kind == override.Extend && o.LeaseTimeout != nil {
			longer = append(longer, leaseAlone(o))
		}
	}
	t.mu.Lock()
	since, prolonged := t.since, t.prolonged
	t.mu.Unlock()
	if longer.Apply(t.claim.about, t.claim.asked).Terms.LeaseTimeout <= prolonged || t.standing() != nil {
		return // told again with the next change, should somebody who asks have gone by then
	}
	total := t.claim.settle(ctx, longer, holdActs).Terms.LeaseTimeout
	if total <= prolonged {
		return
	}
	if err := t.prolong(ctx, since, total); err != nil && ctx.Err() == nil && !priority.CauseOf(err).Kind.EndsHold() && t.standing() == nil {
		t.guard.logger.WarnContext(ctx, "the lease of a holder is not extended as an override wants it; tried again with the next change of the overrides",
			"scope", t.claim.about.Scope, "owner", t.claim.owner, "error", err)
	}
}

// leaseAlone is what an extension is for a holder.
func leaseAlone(o override.Override) override.Override {
	o.WaitingTimeout, o.AcquireTimeout, o.CleanupTimeout = nil, nil, nil
	return o
}

// prolong makes the lease at least total, counted from the grant.
func (t *tenure) prolong(ctx context.Context, since time.Time, total time.Duration) error {
	t.mu.Lock()
	until, enough := since.Add(total), since.Add(total).Before(t.leaseEnd)
	cleanup := t.requirement.CleanupTimeout
	t.mu.Unlock()
	left := time.Until(until).Truncate(time.Millisecond) + time.Millisecond
	if !enough && left > 0 {
		left = max(left, cleanup+time.Millisecond)
		if err := t.grant.Extend(ctx, left); err != nil {
			return t.refusal(err)
		}
	}
	t.mu.Lock()
	t.prolonged = total
	if !enough && left > 0 && t.phase == holding && t.lost == nil {
		t.lease, t.leaseEnd = total, time.Now().Add(left)
		t.addLocked(Extended{left})
	}
	t.mu.Unlock()
	t.stream.deliver()
	return nil
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
