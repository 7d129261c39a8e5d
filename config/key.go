package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// A key is one field of a shape, declared once: its name, what it may be, what
// holds without it, what it means, and where its value goes. The reader, the
// schema, the reference and Compare are made of it.
//
// There are four ways to declare one:
//
//   - to: the value goes into a field
//   - by: a function makes something of the value
//   - inherits: the value is a setting that jobs take over from the defaults
//   - apart: the reader of the section reads it itself
type key struct {
	name    string
	kind    kind
	without string // what holds without it, as it would be written; "" when nothing does
	doc     string // what it means, in one line

	must    bool   // the mapping needs it
	instead string // what to write when it is missing; "": the example of the shape

	fits    func(target any) bool // the key belongs to what is filled; nil: to none
	preset  func(target any)      // fills in what holds without it; nil: nothing does
	read    func(r *reader, v value, target any)
	inherit func(target any, from string)
	setting func(target any) placed // of a key that inherits
	compare func(c *changes, field string, from, to any)
}

// An of is a kind of value, how one is read, and how people see it in a Diff.
type of[V any] struct {
	kind
	read func(*reader, value) (V, bool)
	show func(V) string // nil: as showOf has it
}

// A filled is a text that holds without a key. A plain string in its place is for
// the documentation alone.
type filled string

// to declares a key whose value goes into a field of a T. A without of type V, or
// filled, is filled in.
func to[T, V any](name string, o of[V], without any, doc string, field func(*T) *V) key {
	k := declare[T](name, o.kind, without, doc)
	k.read = func(r *reader, v value, target any) { *field(target.(*T)), _ = o.read(r, v) }
	if text, ok := without.(filled); ok {
		without = any(string(text))
	} else if _, ok := without.(string); ok {
		without = nil
	}
	if preset, ok := without.(V); ok {
		k.preset = func(target any) { *field(target.(*T)) = preset }
	}
	show := o.show
	if show == nil {
		show = showOf[V]()
	}
	k.compare = func(c *changes, name string, from, to any) {
		compare(c, name, *field(from.(*T)), *field(to.(*T)), show)
	}
	return k
}

// by declares a key whose value a function reads into a T.
func by[T any](name string, kind kind, without any, doc string, read func(*reader, value, *T)) key {
	k := declare[T](name, kind, without, doc)
	k.read = func(r *reader, v value, target any) { read(r, v, target.(*T)) }
	return k
}

// inherits declares a key of defaults and of jobs: without it, what T has already
// holds.
func inherits[T, V any](name string, o of[V], without any, doc string, field func(*T) *setting[V]) key {
	k := declare[T](name, o.kind, without, doc)
	k.read = func(r *reader, v value, target any) {
		got, ok := o.read(r, v)
		*field(target.(*T)) = setting[V]{v: got, at: v, given: true, bad: !ok}
	}
	k.setting = func(target any) placed { return field(target.(*T)) }
	k.inherit = func(target any, from string) {
		if s := field(target.(*T)); s.given {
			s.given, s.from = false, from
		}
	}
	return k
}

// apart declares a key that the reader of its section reads itself.
func apart(name string, kind kind, without any, doc string) key {
	return key{name: name, kind: kind, without: asWritten(without), doc: doc}
}

func declare[T any](name string, kind kind, without any, doc string) key {
	k := apart(name, kind, without, doc)
	k.fits = func(target any) bool { _, ok := target.(*T); return ok }
	return k
}

// needed makes a key one that must be there; instead says what to write, where
// the example of the shape says too much.
func needed(k key, instead ...string) key {
	k.must, k.instead = true, strings.Join(instead, "")
	return k
}

// compared adds to a key how it is compared, where no field has its value alone;
// what is compared anyhow comes after that.
func compared[T, V any](k key, value func(*T) V, show func(V) string) key {
	then := k.compare
	k.compare = func(c *changes, name string, from, to any) {
		compare(c, name, value(from.(*T)), value(to.(*T)), show)
		if then != nil {
			then(c, name, from, to)
		}
	}
	return k
}

// comparedBy adds to a key what tells whether two values are the same.
func comparedBy[T any](k key, same func(a, b *T) bool) key {
	k.compare = func(c *changes, name string, from, to any) {
		if !same(from.(*T), to.(*T)) {
			*c = append(*c, Change{Field: name})
		}
	}
	return k
}

// compares adds to a section that is read apart that it is compared key by key.
func compares(s *shape, k key) key {
	k.compare = func(c *changes, name string, from, to any) { s.compare(c, name+".", from, to) }
	return k
}

// asWritten writes a default as a file would have it.
func asWritten(without any) string {
	switch without := without.(type) {
	case nil:
		return ""
	case time.Duration:
		return words.Duration(without)
	}
	return fmt.Sprint(without)
}

// showOf writes values for people; nil for those that would be long.
func showOf[V any]() func(V) string {
	var show any
	switch any(*new(V)).(type) {
	case time.Duration:
		show = period
	case slog.Level:
		show = func(l slog.Level) string { return strings.ToLower(l.String()) }
	case string, bool, int:
		show = plain[V]
	}
	f, _ := show.(func(V) string)
	return f
}

// section reads a mapping that may be missing into target.
func (r *reader) section(v value, s *shape, target any) (object, bool) {
	s.preset(target)
	o, ok := r.optional(v, s)
	if ok {
		r.fill(o, target)
	}
	return o, ok
}

// preset fills in what holds when the file says nothing.
func (s *shape) preset(target any) {
	for _, k := range s.keys {
		if k.preset != nil && k.fits(target) {
			k.preset(target)
		}
	}
}

// fill reads the keys of a mapping that belong to target, in the order of their
// declaration, and reports those that are missing.
func (r *reader) fill(o object, target any) {
	for _, k := range o.shape.keys {
		switch {
		case k.fits == nil || !k.fits(target):
		case o.has(k.name):
			k.read(r, o.get(k.name), target)
		case k.must && !o.shape.judged:
			r.missing(o.value, k.name+" is missing", cmp.Or(k.instead, o.shape.example))
		}
	}
}

// inherited marks the settings of defaults as those that jobs take over.
func (s *shape) inherited(target any, from string) {
	for _, k := range s.keys {
		if k.inherit != nil && k.fits(target) {
			k.inherit(target, from)
		}
	}
}

// compare adds the keys in which two targets differ.
func (s *shape) compare(c *changes, prefix string, from, to any) {
	for _, k := range s.keys {
		if k.compare != nil {
			k.compare(c, prefix+k.name, from, to)
		}
	}
}

// in declares a section that is read into a part of a T. check looks at the whole
// when the file has the section.
func in[T, S any](name string, s *shape, doc string, part func(*T) *S, check ...func(*reader, object, *S)) key {
	k := by(name, like(s), "", doc, func(r *reader, v value, t *T) {
		if o, ok := r.section(v, s, part(t)); ok {
			for _, c := range check {
				c(r, o, part(t))
			}
		}
	})
	k.preset = func(target any) { s.preset(part(target.(*T))) }
	k.compare = func(c *changes, name string, from, to any) { s.compare(c, name+".", part(from.(*T)), part(to.(*T))) }
	return k
}
