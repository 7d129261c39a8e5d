package override

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A Set is what is in force at one moment, in the order of the IDs. See
// InForce.
type Set []Override

// InForce returns which of all are in force at a moment, and when the first of
// them ends; the zero time if there is none. Of several with one ID the last
// one given counts.
func InForce(all []Override, now time.Time) (s Set, next time.Time) {
	for i, o := range all {
		later := func(p Override) bool { return p.ID == o.ID }
		if !now.Before(o.Until) || slices.ContainsFunc(all[i+1:], later) {
			continue
		}
		s = append(s, o)
		if next.IsZero() || o.Until.Before(next) {
			next = o.Until
		}
	}
	slices.SortFunc(s, func(a, b Override) int { return cmp.Compare(a.ID, b.ID) })
	return s, next
}

// An Effect is what becomes of a request.
type Effect struct {
	// Terms are what is left of what was asked for.
	Terms priority.Terms

	// Frozen keeps the request from being granted; nil: nothing does.
	Frozen *Override

	// Bypass lets the work run without the lock; nil: nothing does.
	Bypass *Override

	// Applied are those that made Terms what they are, in the order in which
	// they were applied. Empty: they are as asked for.
	Applied []Override
}

// By returns the override that counts most for the request, for people: the one
// that lets it run without a lock, or keeps it out, or was applied last but
// for Extend; nil if there is none.
func (e Effect) By() *Override {
	switch {
	case e.Bypass != nil:
		return e.Bypass
	case e.Frozen != nil:
		return e.Frozen
	}
	for _, o := range slices.Backward(e.Applied) {
		if o.Kind != Extend {
			return &o
		}
	}
	if n := len(e.Applied); n > 0 {
		return &e.Applied[n-1]
	}
	return nil
}

// Apply returns what becomes of a request. One that asks for the emergency
// priority is an override's own, and nothing changes it. Else, whatever the
// order in which overrides were given, they are applied like this:
//
//  1. Bypass: a request that needs no lock is changed by nothing else. Of
//     several, the first by ID is named.
//  2. Boost: the highest priority, true for forceful, the shortest waiting
//     timeout. A boost never lowers a priority or lengthens a timeout.
//  3. Cap, on what the boosts have left: the lowest priority, false for
//     forceful, the longest waiting timeout. So a cap wins over a boost.
//  4. Extend: the longest of each timeout.
//  5. Freeze, judged by the priority that is left. A request at emergency
//     priority is not frozen.
//
// Hold, PreemptNow and Pause change no request.
func (s Set) Apply(about Subject, asked priority.Terms) Effect {
	e := Effect{Terms: asked}
	matching := func(kind Kind, level priority.Level) []Override {
		var found []Override
		for _, o := range s {
			if o.Kind == kind && o.Match.Fits(about, level) {
				found = append(found, o)
			}
		}
		return found
	}
	if asked.Priority == priority.Emergency {
		return e
	}
	if all := matching(Bypass, asked.Priority); len(all) > 0 {
		e.Bypass = &all[0]
		return e
	}
	for _, kind := range []Kind{Boost, Cap, Extend} {
		e.Applied = append(e.Applied, change(&e.Terms, matching(kind, asked.Priority))...)
	}
	if e.Terms.Priority != priority.Emergency {
		if all := matching(Freeze, e.Terms.Priority); len(all) > 0 {
			e.Frozen = &all[0]
		}
	}
	return e
}

// Paused returns the override that pauses a job, nil if none does: of several,
// the one that lasts longest.
func (s Set) Paused(job string, labels map[string]string) *Override {
	var longest *Override
	for i, o := range s {
		if o.Kind == Pause && o.Match.Fits(Subject{Job: job, Labels: labels}, 0) &&
			(longest == nil || o.Until.After(longest.Until)) {
			longest = &s[i]
		}
	}
	return longest
}

// change makes t what overrides of one kind make of it, and returns those
// without which it would be something else.
func change(t *priority.Terms, all []Override) (applied []Override) {
	last := map[string]int{} // who changed a field
	for i, o := range all {
		for _, field := range o.change(t) {
			last[field] = i
		}
	}
	for _, i := range slices.Compact(slices.Sorted(maps.Values(last))) {
		applied = append(applied, all[i])
	}
	return applied
}

// change makes t what a boost, cap or extension makes of it, and returns the
// fields that are something else now.
func (o Override) change(t *priority.Terms) (fields []string) {
	switch o.Kind {
	case Boost:
		return o.boost(t)
	case Cap:
		return o.lower(t)
	case Extend:
		return o.extend(t)
	case Freeze, Hold, PreemptNow, Pause, Bypass:
	}
	return nil
}

func (o Override) boost(t *priority.Terms) (fields []string) {
	if p := o.Priority; p != nil && *p > t.Priority {
		t.Priority = *p
		fields = append(fields, "priority")
	}
	if f := o.Forceful; f != nil && *f && !t.Forceful {
		t.Forceful = true
		fields = append(fields, "forceful")
	}
	if w := o.WaitingTimeout; w != nil && (t.WaitingTimeout == nil || *w < *t.WaitingTimeout) {
		t.WaitingTimeout = new(*w)
		fields = append(fields, "waiting_timeout")
	}
	return fields
}

func (o Override) lower(t *priority.Terms) (fields []string) {
	if p := o.Priority; p != nil && *p < t.Priority {
		t.Priority = *p
		fields = append(fields, "priority")
	}
	if f := o.Forceful; f != nil && !*f && t.Forceful {
		t.Forceful = false
		fields = append(fields, "forceful")
	}
	if lengthen(&t.WaitingTimeout, o.WaitingTimeout) {
		fields = append(fields, "waiting_timeout")
	}
	return fields
}

func (o Override) extend(t *priority.Terms) (fields []string) {
	if lengthen(&t.WaitingTimeout, o.WaitingTimeout) {
		fields = append(fields, "waiting_timeout")
	}
	isTry := t.AcquireTimeout != nil && *t.AcquireTimeout <= 0 // stays one
	if !isTry && lengthen(&t.AcquireTimeout, o.AcquireTimeout) {
		fields = append(fields, "acquire_timeout")
	}
	if l := o.LeaseTimeout; l != nil && *l > t.LeaseTimeout {
		t.LeaseTimeout = *l
		fields = append(fields, "lease_timeout")
	}
	if c := o.CleanupTimeout; c != nil && *c > t.CleanupTimeout {
		t.CleanupTimeout = *c
		fields = append(fields, "cleanup_timeout")
	}
	return fields
}

// lengthen makes an optional timeout at least as long as another one. One that
// is unset lasts for ever already.
func lengthen(d **time.Duration, least *time.Duration) bool {
	if least == nil || *d == nil || **d >= *least {
		return false
	}
	*d = new(*least)
	return true
}

// Fits reports whether a request, or a job, with this priority is concerned.
func (m Match) Fits(about Subject, level priority.Level) bool {
	for name, value := range m.Labels {
		if has, ok := about.Labels[name]; !ok || has != value {
			return false
		}
	}
	switch {
	case m.Scope != "" && !like(m.Scope, about.Scope):
	case m.Job != "" && !like(m.Job, about.Job):
	case m.PriorityBelow != nil && level >= *m.PriorityBelow:
	case m.PriorityAbove != nil && level <= *m.PriorityAbove:
	default:
		return true
	}
	return false
}

// hasWildcard reports whether a pattern stands for more than one text.
func hasWildcard(pattern string) bool { return strings.ContainsAny(pattern, "*?") }

// like reports whether s fits a pattern with * and ?.
func like(pattern, s string) bool {
	p, t := []rune(pattern), []rune(s)
	star, mark := -1, 0 // where to go back to
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
