package lockguard

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// A claim is what overrides are asked about: a request as it was declared.
type claim struct {
	guard *Guard
	about override.Subject
	owner string
	asked priority.Terms
	mark  *lock.Mark // the request itself is an operator's word, and no override concerns it; nil: it is not
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
	if c.guard.overrides == nil || c.mark != nil {
		return nil
	}
	set, _ := c.guard.overrides.InForce()
	return set.Apply(c.about, c.asked).Frozen
}

// weigh returns what becomes of the claim by the overrides that are in force
// now, once that is on record, and what is closed when that may have changed.
func (c claim) weigh(ctx context.Context) (override.Effect, <-chan struct{}) {
	if c.guard.overrides == nil || c.mark != nil {
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

// record puts on record what overrides are about to do to a request. It returns
// the IDs of those that may not.
func (c claim) record(ctx context.Context, effect override.Effect, on actOn) (failed []string) {
	if c.guard.auditor == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, auditLimit)
	defer cancel()
	before := c.asked
	tell := func(o override.Override, was, is map[string]string) {
		if err := c.recordOne(limited, o, on, was, is); err != nil {
			acts := o.Kind == override.Freeze || o.Kind == override.Cap
			if !acts {
				failed = append(failed, o.ID)
			}
			if ctx.Err() != nil {
				return // the request has ended
			}
			c.guard.logger.WarnContext(ctx, "what an override does is not on record",
				"override", o.ID, "kind", string(o.Kind), "acts", acts, "scope", c.about.Scope, "owner", c.owner, "error", err)
		}
	}
	for _, o := range effect.Applied {
		alone := o
		alone.Match = override.Match{}
		after := override.Set{alone}.Apply(c.about, before).Terms
		was, is := differences(before, after)
		tell(o, was, is)
		before = after
	}
	switch {
	case effect.Frozen != nil:
		tell(*effect.Frozen, map[string]string{"frozen": "false"}, map[string]string{"frozen": "true"})
	case effect.Bypass != nil:
		tell(*effect.Bypass, map[string]string{"bypass": "false"}, map[string]string{"bypass": "true"})
	}
	return failed
}

func (c claim) recordOne(ctx context.Context, o override.Override, on actOn, before, after map[string]string) error {
	what := act{on: on, scope: c.about.Scope, job: c.about.Job, owner: c.owner}
	return c.guard.acts.once(ctx, fingerprint(o), what, func(ctx context.Context) error {
		return c.guard.audit(ctx, opstore.AuditEntry{
			Action: opstore.AuditOverrideAct, Phase: opstore.AuditIntent,
			Scope: c.about.Scope, Job: c.about.Job,
			By: o.By, Reason: o.Reason, Override: o.ID,
			Requestor: &opstore.AuditParty{Owner: c.owner, Host: c.guard.host, PID: c.guard.pid, Priority: c.asked.Priority},
			Before:    before, After: after,
		})
	})
}
