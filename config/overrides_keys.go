package config

import (
	"fmt"
	"math"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

const overridesExample = "write it like overrides: [{id: INC-4411, kind: freeze, match: {scope: db/*}, until: " +
	"2026-11-22T14:00:00Z, by: ana, reason: disk full}]"

var overridesFileShape = shape{
	name:    "the overrides file",
	example: overridesExample,
	keys: []key{
		apart("overrides", oneOf(listOf(like(&overrideShape)), nothing), "",
			"What operators say, each with who, why and until when. An empty list, or an empty file: nothing."),
	},
	hints: map[string]string{
		"version": "remove it, this file has none", "override": `did you mean "overrides"?`,
		"emergency": "it belongs to the main file", "approvals": "it belongs to the main file",
		"jobs": "they belong to the main file",
	},
}

var overrideShape = shape{
	name: "an override",
	example: "write it like {id: INC-4411, kind: freeze, match: {scope: db/*}, until: 2026-11-22T14:00:00Z, by: ana, " +
		"reason: disk full}",
	judged: true,
	keys: []key{
		needed(to("id", harmlessText("write a name such as INC-4411"), "",
			"Its name, for example the number of the incident: letters, digits, dots, underscores and hyphens.",
			func(o *override.Override) *string { return &o.ID })),
		needed(by("kind", kindOf.kind, "", "What it does.", (*reader).overrideKind)),
		apart("match", like(&matchShape), "",
			"What it applies to: requests and jobs that meet every condition; without it, all."),
		needed(to("until", of[time.Time]{kind: kind{what: "moment", scalar: ofMoment}, read: (*reader).until}, "",
			"When it ends by itself, with a time zone: 2026-11-22T14:00:00Z.",
			func(o *override.Override) *time.Time { return &o.Until })),
		needed(to("by", harmlessText("write who says so"), "", "Who says so.",
			func(o *override.Override) *string { return &o.By })),
		needed(to("reason", harmlessText("write why"), "", "Why.", func(o *override.Override) *string { return &o.Reason })),
		to("priority", of[*priority.Level]{kind: aPriority, read: (*reader).atLeastOne}, "",
			"boost: at least this priority, a class, or emergency; cap: at most this one.",
			func(o *override.Override) **priority.Level { return &o.Priority }),
		by("forceful", aBoolean, "", "boost: true takes the lock when the holder's grace is over; cap: false does not.",
			(*reader).overrideForceful),
		to("waiting_timeout", aTimeout, "",
			"boost: at most this one; cap and extend: at least; hold and preempt-now: the grace of the holder, at most.",
			func(o *override.Override) **time.Duration { return &o.WaitingTimeout }),
		to("lease_timeout", aTimeout, "", "extend: at least this one.",
			func(o *override.Override) **time.Duration { return &o.LeaseTimeout }),
		to("cleanup_timeout", aTimeout, "", "extend: at least this one.",
			func(o *override.Override) **time.Duration { return &o.CleanupTimeout }),
		to("acquire_timeout", aTimeout, "", "extend: at least this one.",
			func(o *override.Override) **time.Duration { return &o.AcquireTimeout }),
		to("token", number[int64](1, math.MaxInt64, "write the token of the holder, a number"), "",
			"preempt-now: that of the holder that is meant; without it, any holder.",
			func(o *override.Override) *int64 { return &o.Token }),
	},
	hints: map[string]string{
		"name": `did you mean "id"?`, "type": `did you mean "kind"?`, "expires": `did you mean "until"?`,
		"end": `did you mean "until"?`, "who": `did you mean "by"?`,
		"for": "write the moment when it ends: until", "author": `did you mean "by"?`, "why": `did you mean "reason"?`,
		"message": `did you mean "reason"?`,
		"scope":   "write it under match", "job": "write it under match", "labels": "write it under match",
		"priority_below": "write it under match", "priority_above": "write it under match",
	},
}

var matchShape = shape{
	name:    "match",
	example: "write it like {scope: db/*, priority_below: 80}",
	keys: []key{
		to("scope", harmlessText("write a pattern such as db/*"), "",
			"A pattern; * stands for any text, slashes included, ? for one character.",
			func(m *override.Match) *string { return &m.Scope }),
		to("job", harmlessText("write a pattern such as nightly-*"), "", "A pattern for the name of the job.",
			func(m *override.Match) *string { return &m.Job }),
		by("labels", named(anyText), "", "Labels of the job: all of them, with these values.", (*reader).matchLabels),
		to("priority_below", anyBound, "", "The priority is lower than this one.",
			func(m *override.Match) **priority.Level { return &m.PriorityBelow }),
		to("priority_above", anyBound, "", "The priority is higher than this one.",
			func(m *override.Match) **priority.Level { return &m.PriorityAbove }),
	},
	hints: map[string]string{
		"priority": `write "priority_below" or "priority_above"`, "label": `did you mean "labels"?`,
		"owner": `did you mean "job"?`, "jobs": `did you mean "job"?`, "scopes": `did you mean "scope"?`,
	},
}

// kindOf is one of override.Kinds.
var kindOf = choice[override.Kind](override.Kinds()...)

// aPriority is one that may be that of emergencies.
var aPriority = oneOf(levelKind, kind{what: "class", scalar: ofName}, word("emergency"))

// harmless is what a text is that cannot be read.
const harmless = "x"

func harmlessText(instead string) of[string] {
	return of[string]{kind: aText, read: func(r *reader, v value) (string, bool) {
		text, ok := r.text(v, instead)
		if !ok {
			text = harmless
		}
		return text, ok
	}}
}

// aTimeout is a duration that may be missing; a second where it cannot be read.
var aTimeout = of[*time.Duration]{kind: aDuration, read: func(r *reader, v value) (*time.Duration, bool) {
	d, ok := r.notNegative(v)
	if !ok {
		d = time.Second
	}
	return &d, ok
}}

var anyBound = of[*priority.Level]{kind: aPriority, read: func(r *reader, v value) (*priority.Level, bool) {
	return bound(v, r.anyLevel)
}}

// atLeastOne is a priority; 1 where it cannot be read.
func (r *reader) atLeastOne(v value) (*priority.Level, bool) {
	level, ok := bound(v, r.anyLevel)
	if !ok {
		level = new(priority.Level(1))
	}
	return level, ok
}

// anyLevel reads a priority that may be that of emergencies.
func (r *reader) anyLevel(v value) (rank, bool) {
	switch {
	case !r.isScalar(v):
	case v.node.Value == "emergency":
		return rank{level: priority.Emergency}, true
	case v.node.Value == fmt.Sprint(priority.Emergency):
		r.problem(v, v.node.Value+" is the emergency priority", "write emergency if that is meant")
		return rank{}, false
	}
	return r.priority(v)
}

func (r *reader) overrideKind(v value, o *override.Override) { o.Kind, _ = kindOf.read(r, v) }

func (r *reader) overrideForceful(v value, o *override.Override) {
	b, ok := r.boolean(v)
	o.Forceful = new(ok && b || !ok && o.Kind == override.Boost)
}

func (r *reader) matchLabels(v value, m *override.Match) {
	m.Labels = r.labels(v)
	if r.isMapping(v) && len(v.node.Content) == 0 {
		r.missing(v, "there are no labels", "write it like {team: orders}, or remove it")
	}
}

// until reads a moment. One that cannot be read is near.
func (r *reader) until(v value) (time.Time, bool) {
	near := r.now.Add(time.Second)
	example := r.now.Add(2 * time.Hour).UTC().Truncate(time.Minute)
	instead := "write when it ends, for example " + example.Format(time.RFC3339)
	s, ok := r.scalar(v, instead)
	if !ok {
		return near, false
	}
	t, err := time.Parse(time.RFC3339, s.text)
	if err == nil {
		return t, true
	}
	what, meant := whyNoMoment(s.text, r.now)
	if !meant.IsZero() {
		instead = "write " + meant.UTC().Format(time.RFC3339) + " if that is meant"
	}
	r.problem(v, s.quoted()+" "+what, instead)
	return near, false
}

// whyNoMoment says what is wrong with a moment, and what was probably meant; the
// zero time if that cannot be derived.
func whyNoMoment(text string, now time.Time) (what string, meant time.Time) {
	const zoneless = "has no time zone"
	now = now.UTC()
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return "is a duration, not the moment when it ends", now.Add(d).Truncate(time.Second)
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02 15:04:05 Z07:00",
		"2006-01-02 15:04 UTC",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return "is not written as RFC 3339 has it", t
		}
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return zoneless, t
		}
	}
	if _, err := time.Parse(time.DateOnly, text); err == nil {
		return "is a whole day: it has no time and no time zone", time.Time{}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			day := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			if !day.After(now) {
				day = day.AddDate(0, 0, 1)
			}
			return "has no day and no time zone", day
		}
	}
	return "is not a moment", time.Time{}
}
