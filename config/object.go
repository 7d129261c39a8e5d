package config

import (
	"fmt"
	"slices"
	"strings"
)

// A shape is what a mapping may have in it.
type shape struct {
	name    string            // what the mapping is, for messages
	example string            // how to write one
	keys    []key             // in the order of the documentation
	judged  bool              // the code that uses it reports what is missing
	any     []string          // keys of which it needs at least one
	later   []string          // fields of features that this version does not have
	hints   map[string]string // for fields people look for here: what to write instead
}

// An object is a mapping of a known shape.
type object struct {
	value
	shape   *shape
	entries map[string]entry
}

// object reads a mapping and reports the fields it should not have.
func (d *decoder) object(v value, s *shape) (object, bool) {
	all, ok := d.entries(v, s.example, v.child)
	if !ok {
		return object{value: v, shape: s}, false
	}
	o := object{value: v, shape: s, entries: make(map[string]entry, len(s.keys))}
	for _, e := range all {
		if s.knows(e.name) {
			if !o.has(e.name) {
				o.entries[e.name] = e
			}
			continue
		}
		e.key.path = v.path
		d.problem(e.key, "unknown field "+quote(e.name), d.insteadOf(e.name, s))
	}
	return o, true
}

func (d *decoder) insteadOf(name string, s *shape) string {
	if hint, ok := s.hints[name]; ok {
		return hint
	}
	if slices.Contains(s.later, name) {
		return "this version of lockkeeper cannot do that yet, remove it"
	}
	names := s.names()
	if meant := d.suggest.didYouMean(name, names); meant != "" {
		return meant
	}
	return fmt.Sprintf("%s can have %s", s.name, strings.Join(names, ", "))
}

// get returns the value of a field; without a node when it is not there.
func (o object) get(field string) value {
	if e, ok := o.entries[field]; ok {
		return e.value
	}
	return value{path: o.child(field), line: o.line, column: o.column, shared: o.shared}
}

func (o object) has(field string) bool {
	_, ok := o.entries[field]
	return ok
}

// where returns the value of a field, or the whole where it is not there.
func (o object) where(field string) value {
	if v := o.get(field); v.exists() {
		return v
	}
	return o.value
}
