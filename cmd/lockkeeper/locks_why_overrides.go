package main

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// inForce returns the overrides that concern the lock or the job: those whose
// pattern it fits, whatever else they ask for of a request.
func (f *whyFacts) inForce() []override.Override {
	var found []override.Override
	scopes := map[string]bool{f.about: true}
	if f.isJob() {
		delete(scopes, f.about)
		for _, n := range f.requests() {
			scopes[n.Scope] = true
		}
		for _, r := range f.frozenOf() {
			scopes[r.Scope] = true
		}
		if f.job != nil {
			for _, r := range f.job.Requirements {
				scopes[r.Scope] = true
			}
		}
	}
	for _, o := range f.overrides {
		if f.concerns(o, scopes) || f.mayKeepOut(o) {
			found = append(found, o)
		}
	}
	return found
}

func (f *whyFacts) concerns(o override.Override, scopes map[string]bool) bool {
	if o.Kind == override.Pause {
		return f.isJob() && override.Match{Job: o.Match.Job}.Fits(override.Subject{Job: f.about}, 0)
	}
	for scope := range scopes {
		if !(override.Match{Scope: o.Match.Scope}).Fits(override.Subject{Scope: scope}, 0) {
			continue
		}
		job := override.Match{Job: o.Match.Job}
		fits := func(owner string) bool { return job.Fits(override.Subject{Job: owner}, 0) }
		switch s := f.state(scope); {
		case o.Match.Job == "", o.Match.Scope != "" && !f.isJob():
			return true
		case f.isJob():
			return fits(f.about)
		default:
			return slices.ContainsFunc(slices.Concat(s.Holders, s.Waiters), func(c lock.Contender) bool {
				return fits(c.Owner)
			})
		}
	}
	return false
}

// mayKeepOut reports whether a freeze may be why a run has no request: those
// that are frozen are not in the queue. Without the configuration it is unknown
// which locks it needs.
func (f *whyFacts) mayKeepOut(o override.Override) bool {
	return o.Kind == override.Freeze && f.job == nil && f.runsUnseen() &&
		(override.Match{Job: o.Match.Job}).Fits(override.Subject{Job: f.about}, 0)
}

// runsUnseen reports whether the job runs, and neither holds nor waits, as far as
// can be seen: daemons of older versions do not show that a request is frozen.
func (f *whyFacts) runsUnseen() bool {
	return f.ticks != nil && f.isJob() && len(f.requests())+len(f.frozenOf()) == 0 && len(f.ticks.Runs) > 0
}

// mayBeFrozen reports whether a freeze may keep the job's run out of the queue.
func (f *whyFacts) mayBeFrozen() bool {
	return f.runsUnseen() &&
		slices.ContainsFunc(f.inForce(), func(o override.Override) bool { return o.Kind == override.Freeze })
}
