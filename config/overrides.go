package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
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

	again bool // read again: never wait for a pipe
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
		p := Problem{
			File: name, What: "the file is not there: no override of a file is in force",
			Instead: "write it when there is an emergency", Warning: true,
		}
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
	r := &reader{
		decoder: newDecoder(src, opts.Env), dir: filepath.Dir(name), cfg: cfg, classes: map[string]class{}, now: now,
	}
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

// An overrideEntry is an override and where it stands. A field that cannot be
// read has been reported: here it has a value that causes no further problem.
type overrideEntry struct {
	override.Override
	at, match object
}

func (r *reader) overrides(src source) []override.Override {
	if src.root == nil {
		return nil
	}
	root := r.use(src.root, "", value{})
	if r.isNull(root) {
		return nil
	}
	o, ok := r.object(root, &overridesFileShape)
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
		o, ok := r.optional(item, &overrideShape)
		if !ok {
			continue
		}
		read := r.override(o)
		if id := o.get("id"); r.isScalar(id) {
			if other, twice := first[id.node.Value]; twice {
				r.problem(id,
					fmt.Sprintf("there is an override %s already, at %d:%d", quote(id.node.Value), other.line, other.column),
					"write another id")
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
func (r *reader) override(o object) override.Override {
	before := r.problems()
	read := overrideEntry{at: o, match: object{value: o.get("match")}}
	r.fill(o, &read.Override)
	if v := o.get("match"); v.exists() {
		match, ok := r.section(v, &matchShape, &read.Match)
		if ok {
			read.match = match
		} else {
			read.Match.Scope = harmless
		}
	}
	kindKnown := !o.has("kind") || read.Kind != ""
	limits := r.cfg.Emergency.Limits(r.now)
	limits.AllowEnded = true
	for _, err := range unjoin(read.Validate(limits)) {
		if e, ok := errors.AsType[*override.FieldError](err); ok && (kindKnown || e.Field != "kind") {
			r.refuseField(read, e)
		}
	}
	if r.problems() == before {
		r.adviseOverride(read)
	}
	return read.Override
}

// refuseField reports what package override refuses, where that stands.
func (r *reader) refuseField(read overrideEntry, e *override.FieldError) {
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

// adviseOverride warns of overrides that have ended, and of patterns that match nothing known.
func (r *reader) adviseOverride(read overrideEntry) {
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
		r.warn(at,
			fmt.Sprintf("%s (%s) concerns %s: match has neither scope nor job nor labels", quote(read.ID), read.Kind, whom),
			"leave it if that is meant")
	}
	if m := read.Match; m.Scope != "" {
		v := read.match.get("scope")
		if !strings.ContainsAny(m.Scope, "*?") {
			if _, err := lock.EscapeScope(m.Scope); r.refused(v, err) {
				return
			}
		}
		fits := func(s Scope) bool { return override.Match{Scope: m.Scope}.Fits(override.Subject{Scope: s.Name}, 0) }
		if known := r.cfg.Scopes; len(known) > 0 && !slices.ContainsFunc(known, fits) {
			names := make([]string, len(known))
			for i, s := range known {
				names[i] = s.Name
			}
			r.noMatch(v, m.Scope, "no scope", names)
		}
	}
	if m := read.Match; m.Job != "" {
		var names []string
		fits := false
		for _, job := range r.cfg.Jobs {
			names = append(names, job.Name)
			fits = fits || override.Match{Job: m.Job}.Fits(override.Subject{Job: job.Name}, 0)
		}
		if len(names) > 0 && !fits {
			r.noMatch(read.match.get("job"), m.Job, "no job", names)
		}
	}
}

func (r *reader) noMatch(v value, pattern, what string, known []string) {
	instead := "leave it if others have it"
	if meant := r.suggest.didYouMean(pattern, known); meant != "" {
		instead = meant
	}
	r.warn(v, fmt.Sprintf("%s fits %s of %s", quote(pattern), what, r.cfg.File), instead)
}
