package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Overrides is an overrides file, read and checked.
type Overrides struct {
	// All are those that have not ended, in the order of the file. Each is valid.
	All []override.Override

	// File is the name that was given to LoadOverrides or ParseOverrides.
	File string

	// Warnings are what works, but perhaps not as meant, and what has ended; by
	// line and column.
	Warnings []Problem

	read contents
}

// OverridesOptions are what an overrides file does not say itself.
type OverridesOptions struct {
	// Config is the configuration of the daemon: its classes can be used as
	// priorities, its limits hold. nil: there are no classes, and the limits are
	// the defaults.
	Config *Config

	// Env looks up environment variables. Defaults to os.LookupEnv.
	Env func(name string) (value string, set bool)

	// Now is the time on the ZooKeeper servers. Defaults to the local clock.
	Now func() time.Time

	again bool // nobody waits for a pipe
}

// maxOverrides is how many overrides people can still keep an eye on.
const maxOverrides = 1000

// LoadOverrides reads the overrides file with the given name. One that is not
// there is one without overrides, and a warning. If anything is wrong with it,
// the error is an *Errors with all of it, and none of the overrides counts.
func LoadOverrides(name string, opts OverridesOptions) (*Overrides, error) {
	read := readFile
	if opts.again {
		read = readAgain
	}
	data, err := read(name)
	if err == nil {
		return ParseOverrides(name, data, opts)
	}
	seen := contents{}
	seen.add(name, nil, err)
	if errors.Is(err, fs.ErrNotExist) {
		p := Problem{File: name, What: "the file is not there: no override of a file is in force", Instead: "write it when there is an emergency", Warning: true}
		return &Overrides{File: name, Warnings: []Problem{p}, read: seen}, nil
	}
	p := Problem{File: name, What: fmt.Sprintf("the file cannot be read: %v", plainCause(err)), Instead: anotherFile(err)}
	return nil, &Errors{Problems: []Problem{p}, read: seen}
}

// ParseOverrides reads overrides from data. If anything is wrong, the error is
// an *Errors with all of it.
func ParseOverrides(name string, data []byte, opts OverridesOptions) (*Overrides, error) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	now := time.Now()
	if opts.Now != nil {
		now = opts.Now()
	}
	cfg := opts.Config
	if cfg == nil {
		cfg = &Config{Emergency: Emergency{MaxDuration: override.DefaultMaxDuration}}
	}
	src := readSource(data)
	r := &overrideReader{reader: &reader{decoder: newDecoder(src, opts.Env), dir: filepath.Dir(name), classes: map[string]class{}}, main: cfg, now: now}
	for name, level := range cfg.Classes {
		r.classes[name] = class{rank: rank{level: level}}
	}
	all := r.overrides(src)
	problems, warnings := r.collect(name)
	for _, p := range src.problems {
		p.File = name
		problems = append(problems, p)
	}
	sortProblems(problems)
	sortProblems(warnings)
	seen := contents{}
	seen.add(name, data, nil)
	if len(problems) > 0 {
		return nil, &Errors{Problems: problems, Warnings: warnings, read: seen}
	}
	return &Overrides{All: all, File: name, Warnings: warnings, read: seen}, nil
}

const overridesExample = "write it like overrides: [{id: INC-4411, kind: freeze, match: {scope: db/*}, until: 2026-11-22T14:00:00Z, by: ana, reason: disk full}]"

var overridesFileShape = shape{
	name:    "the overrides file",
	example: overridesExample,
	keys: []key{
		{"overrides", oneOf(listOf(like(&overrideShape)), nothing), "", "What operators say, each with who, why and until when. An empty list, or an empty file: nothing."},
	},
	hints: map[string]string{
		"version": "remove it, this file has none", "override": `did you mean "overrides"?`,
		"emergency": "it belongs to the main file", "approvals": "it belongs to the main file", "jobs": "they belong to the main file",
	},
}

// aPriority is one that may be that of emergencies.
var aPriority = oneOf(levelKind, kind{what: "class", scalar: ofName}, word("emergency"))

var overrideShape = shape{
	name:    "an override",
	example: "write it like {id: INC-4411, kind: freeze, match: {scope: db/*}, until: 2026-11-22T14:00:00Z, by: ana, reason: disk full}",
	keys: []key{
		{"id", aText, "", "Its name, for example the number of the incident: letters, digits, dots, underscores and hyphens."},
		{"kind", word(kindWords()...), "", "What it does."},
		{"match", like(&matchShape), "", "Whom it concerns: whoever fits all that is given; without it, everybody."},
		{"until", kind{what: "moment", scalar: ofMoment}, "", "When it ends by itself, with a time zone: 2026-11-22T14:00:00Z."},
		{"by", aText, "", "Who says so."},
		{"reason", aText, "", "Why."},
		{"priority", aPriority, "", "boost: at least this priority, a class, or emergency; cap: at most this one."},
		{"forceful", aBoolean, "", "boost: true takes the lock when the holder's grace is over; cap: false does not."},
		{"waiting_timeout", aDuration, "", "boost: at most this one; cap and extend: at least; hold and preempt-now: the grace of the holder, at most."},
		{"lease_timeout", aDuration, "", "extend: at least this one."},
		{"cleanup_timeout", aDuration, "", "extend: at least this one."},
		{"acquire_timeout", aDuration, "", "extend: at least this one."},
		{"token", wholeNumber(1, math.MaxInt64), "", "preempt-now: that of the holder that is meant; without it, whoever holds the lock."},
	},
	must: []string{"id", "kind", "until", "by", "reason"},
	hints: map[string]string{
		"name": `did you mean "id"?`, "type": `did you mean "kind"?`, "expires": `did you mean "until"?`, "end": `did you mean "until"?`, "who": `did you mean "by"?`,
		"for": "write the moment when it ends: until", "author": `did you mean "by"?`, "why": `did you mean "reason"?`, "message": `did you mean "reason"?`,
		"scope": "write it under match", "job": "write it under match", "labels": "write it under match",
		"priority_below": "write it under match", "priority_above": "write it under match",
	},
}

var matchShape = shape{
	name:    "match",
	example: "write it like {scope: db/*, priority_below: 80}",
	keys: []key{
		{"scope", aText, "", "A pattern; * stands for any text, slashes included, ? for one character."},
		{"job", aText, "", "A pattern for the name of the job."},
		{"labels", named(anyText), "", "Labels of the job: all of them, with these values."},
		{"priority_below", aPriority, "", "The priority is lower than this one."},
		{"priority_above", aPriority, "", "The priority is higher than this one."},
	},
	hints: map[string]string{"priority": `write "priority_below" or "priority_above"`, "label": `did you mean "labels"?`, "owner": `did you mean "job"?`, "jobs": `did you mean "job"?`, "scopes": `did you mean "scope"?`},
}

func kindWords() []string {
	var words []string
	for _, k := range override.Kinds() {
		words = append(words, string(k))
	}
	return words
}

// An overrideReader reads one overrides file.
type overrideReader struct {
	*reader
	main *Config
	now  time.Time
}

// An overrideEntry is an override and where it stands. A field that cannot be
// read has been reported: here it has a value that nobody minds.
type overrideEntry struct {
	override.Override
	at, match object
}

func (r *overrideReader) overrides(src source) []override.Override {
	if src.root == nil {
		return nil
	}
	root := r.use(src.root, "", value{})
	if r.isNull(root) {
		return nil
	}
	o, ok := r.object(root, overridesFileShape)
	v := o.get("overrides")
	if !ok || !v.exists() || r.isNull(v) {
		return nil
	}
	items, _ := r.items(v, overridesExample)
	if n := len(items); n > maxOverrides {
		r.problem(v, fmt.Sprintf("the list has %d overrides, more than %d", n, maxOverrides), "remove those that have ended")
		return nil
	}
	var all []override.Override
	first := map[string]value{}
	for _, item := range items {
		o, ok := r.optional(item, overrideShape)
		if !ok {
			continue
		}
		read := r.override(o)
		if id := o.get("id"); r.isScalar(id) {
			if other, twice := first[id.node.Value]; twice {
				r.problem(id, fmt.Sprintf("there is an override %s already, at %d:%d", quote(id.node.Value), other.line, other.column), "write another id")
			} else {
				first[id.node.Value] = id
			}
		}
		if r.now.Before(read.Until) {
			all = append(all, read)
		}
	}
	return all
}

func (r *reader) isNull(v value) bool { return r.isScalar(v) && v.node.Tag == tagNull }

// override reads one override and says what is wrong with it.
func (r *overrideReader) override(o object) override.Override {
	before := r.problems()
	read := overrideEntry{at: o, match: object{value: o.get("match")}}
	read.ID = r.textOf(o, "id", "write a name such as INC-4411")
	kindKnown := true
	if o.has("kind") {
		var name string
		name, kindKnown = r.word(o.get("kind"), kindWords()...)
		read.Kind = override.Kind(name)
	}
	r.match(o.get("match"), &read)
	if o.has("until") {
		read.Until = r.until(o.get("until"))
	}
	read.By = r.textOf(o, "by", "write who says so")
	read.Reason = r.textOf(o, "reason", "write why")
	if v := o.get("priority"); o.has("priority") {
		rank, ok := r.level(v)
		if !ok {
			rank.level = 1
		}
		read.Priority = &rank.level
	}
	if v := o.get("forceful"); o.has("forceful") {
		b, ok := r.boolean(v)
		read.Forceful = new(ok && b || !ok && read.Kind == override.Boost)
	}
	read.WaitingTimeout = r.timeoutOf(o, "waiting_timeout")
	read.LeaseTimeout = r.timeoutOf(o, "lease_timeout")
	read.CleanupTimeout = r.timeoutOf(o, "cleanup_timeout")
	read.AcquireTimeout = r.timeoutOf(o, "acquire_timeout")
	if o.has("token") {
		read.Token = r.between(o.get("token"), 1, math.MaxInt64, "write the token of the holder, a number")
	}
	limits := r.main.Emergency.Limits(r.now)
	limits.AllowEnded = true
	for _, err := range unjoin(read.Validate(limits)) {
		if e, ok := errors.AsType[*override.FieldError](err); ok && (kindKnown || e.Field != "kind") {
			r.refuseField(read, e)
		}
	}
	if r.problems() == before {
		r.advise(read)
	}
	return read.Override
}

// refuseField reports what package override refuses, where that stands.
func (r *overrideReader) refuseField(read overrideEntry, e *override.FieldError) {
	what, instead := splitReason(e.Reason)
	in, field := read.at, e.Field
	if inner, found := strings.CutPrefix(field, "match."); found {
		in, field = read.match, inner
	}
	v := in.get(field)
	if name, found := strings.CutPrefix(field, "labels["); found {
		v = in.get("labels")
		v.path += "[" + name
	}
	if v.exists() {
		r.problem(v, what, instead)
		return
	}
	v = in.value
	if !v.exists() {
		v = read.at.value
	}
	if strings.HasPrefix(what, "is missing") {
		r.missing(v, field+" "+what, instead)
		return
	}
	r.problem(v, what, instead)
}

// harmless is what a text is that cannot be read.
const harmless = "x"

func (r *overrideReader) textOf(o object, field, instead string) string {
	if !o.has(field) {
		return ""
	}
	text, ok := r.text(o.get(field), instead)
	if !ok {
		return harmless
	}
	return text
}

func (r *overrideReader) timeoutOf(o object, field string) *time.Duration {
	if !o.has(field) {
		return nil
	}
	d, ok := r.notNegative(o.get(field))
	if !ok {
		d = time.Second
	}
	return &d
}

func (r *overrideReader) match(v value, into *overrideEntry) {
	if !v.exists() {
		return
	}
	o, ok := r.object(v, matchShape)
	if !ok {
		into.Match.Scope = harmless
		return
	}
	into.match = o
	m := &into.Match
	m.Scope = r.textOf(o, "scope", "write a pattern such as db/*")
	m.Job = r.textOf(o, "job", "write a pattern such as nightly-*")
	if v := o.get("labels"); v.exists() {
		m.Labels = r.labels(v)
		if v.node.Kind == yaml.MappingNode && len(v.node.Content) == 0 {
			r.missing(v, "there are no labels", "write it like {team: orders}, or remove it")
		}
	}
	m.PriorityBelow = r.bound(o.get("priority_below"), r.level)
	m.PriorityAbove = r.bound(o.get("priority_above"), r.level)
}

// level reads a priority that may be that of emergencies.
func (r *overrideReader) level(v value) (rank, bool) {
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

// until reads a moment. One that cannot be read is near.
func (r *overrideReader) until(v value) time.Time {
	near := r.now.Add(time.Second)
	example := r.now.Add(2 * time.Hour).UTC().Truncate(time.Minute)
	instead := "write when it ends, for example " + example.Format(time.RFC3339)
	s, ok := r.scalar(v, instead)
	if !ok {
		return near
	}
	t, err := time.Parse(time.RFC3339, s.text)
	if err == nil {
		return t
	}
	what, meant := whyNoMoment(s.text, r.now)
	if !meant.IsZero() {
		instead = "write " + meant.UTC().Format(time.RFC3339) + " if that is meant"
	}
	r.problem(v, s.quoted()+" "+what, instead)
	return near
}

// whyNoMoment says what is wrong with a moment, and when it might be; the zero
// time when nobody can tell.
func whyNoMoment(text string, now time.Time) (what string, meant time.Time) {
	const zoneless = "has no time zone"
	now = now.UTC()
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return "is a duration, not the moment when it ends", now.Add(d).Truncate(time.Second)
	}
	for _, layout := range []string{"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04 UTC"} {
		if t, err := time.Parse(layout, text); err == nil {
			return "is not written as RFC 3339 has it", t
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
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

// advise warns of what has ended, and of what fits nobody that is known.
func (r *overrideReader) advise(read overrideEntry) {
	if !r.now.Before(read.Until) {
		r.warn(read.at.get("until"), fmt.Sprintf("%s has ended: it does nothing any more", quote(read.ID)), "remove it")
		return
	}
	if read.ForAll() {
		at, whom := read.match.value, "every request of every job"
		if !at.exists() {
			at = read.at.value
		}
		if read.Kind == override.Pause {
			whom = "every job"
		}
		if m := read.Match; m.PriorityBelow != nil || m.PriorityAbove != nil {
			whom += " at that priority"
		}
		r.warn(at, fmt.Sprintf("%s (%s) concerns %s: match has neither scope nor job nor labels", quote(read.ID), read.Kind, whom), "leave it if that is meant")
	}
	if m := read.Match; m.Scope != "" {
		v := read.match.get("scope")
		if !strings.ContainsAny(m.Scope, "*?") {
			if _, err := recipes.EscapeScope(m.Scope); r.refused(v, err) {
				return
			}
		}
		fits := func(s Scope) bool { return override.Match{Scope: m.Scope}.Fits(override.Subject{Scope: s.Name}, 0) }
		if known := r.main.Scopes; len(known) > 0 && !slices.ContainsFunc(known, fits) {
			names := make([]string, len(known))
			for i, s := range known {
				names[i] = s.Name
			}
			r.nobody(v, m.Scope, "no scope", names)
		}
	}
	if m := read.Match; m.Job != "" {
		var names []string
		fits := false
		for _, job := range r.main.Jobs {
			names = append(names, job.Name)
			fits = fits || override.Match{Job: m.Job}.Fits(override.Subject{Job: job.Name}, 0)
		}
		if len(names) > 0 && !fits {
			r.nobody(read.match.get("job"), m.Job, "no job", names)
		}
	}
}

func (r *overrideReader) nobody(v value, pattern, what string, known []string) {
	instead := "leave it if others have it"
	if meant := r.suggest.didYouMean(pattern, known); meant != "" {
		instead = meant
	}
	r.warn(v, fmt.Sprintf("%s fits %s of %s", quote(pattern), what, r.main.File), instead)
}
