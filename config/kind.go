package config

import (
	"slices"
	"time"
)

// A kind is what the value of a key may be. The reader's messages and the
// schema that editors complete from are made of the same one.
type kind struct {
	what        string   // in the documentation, where the rest does not say it
	scalar      scalarOf // of a plain value
	words       []string // the only ones, if there are any
	least, most *int64   // of a whole number
	shape       *shape   // of a mapping of known keys
	list        *kind    // of the items of a list
	some        bool     // a list or mapping that must not be empty
	names       *kind    // of the values of a mapping whose keys the author chooses
	either      []kind   // one of these
}

// A scalarOf is what a plain value stands for.
type scalarOf int

const (
	noScalar  scalarOf = iota
	ofText             // not empty
	ofAnyText          // may be empty
	ofName             // text that is no number
	ofGoFunc           // the name of a Go function
	ofDuration
	ofWholeNumber
	ofNumber
	ofBoolean
	ofSize
	ofMoment
	ofNothing
	ofAnything
)

var (
	aText     = kind{what: "text", scalar: ofText}
	aDuration = kind{what: "duration", scalar: ofDuration}
	aBoolean  = kind{what: "true or false", scalar: ofBoolean, words: []string{"true", "false"}}
	aNumber   = kind{what: "number", scalar: ofNumber}
	aFile     = kind{what: "file", scalar: ofText}
	nothing   = kind{what: "nothing", scalar: ofNothing}
	aSchedule = kind{what: "schedule", scalar: ofText}

	aZone       = of[string]{kind: kind{what: "time zone", scalar: ofText}, read: (*reader).timezone}
	positive    = of[time.Duration]{kind: aDuration, read: (*reader).positive}
	notNegative = of[time.Duration]{kind: aDuration, read: (*reader).notNegative}
	yesOrNo     = of[bool]{kind: aBoolean, read: func(r *reader, v value) (bool, bool) { return r.boolean(v) }}
)

// text is a text that is not empty; instead says what to write.
func text(instead string) of[string] {
	return of[string]{kind: aText, read: func(r *reader, v value) (string, bool) { return r.text(v, instead) }}
}

// choice is one of a few words.
func choice[T, W ~string](words ...W) of[T] {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return of[T]{kind: word(all...), read: func(r *reader, v value) (T, bool) {
		got, ok := r.word(v, all...)
		return T(got), ok
	}}
}

// number is a whole number within bounds; the least one where it is none.
func number[T int | int64](least, most int64, instead string) of[T] {
	return of[T]{kind: wholeNumber(least, most), read: func(r *reader, v value) (T, bool) {
		n, ok := r.between(v, least, most, instead)
		return T(n), ok
	}}
}

// textList is a list of texts, each of which check may refuse.
func textList(instead string, check func(r *reader, item value, text string) bool) of[[]string] {
	return of[[]string]{kind: listOf(aText), read: func(r *reader, v value) ([]string, bool) {
		return r.texts(v, instead, check), true
	}}
}

func (r *reader) texts(v value, instead string, check func(r *reader, item value, text string) bool) (all []string) {
	items, _ := r.items(v, instead)
	for _, item := range items {
		if text, ok := r.text(item, instead); ok && check(r, item, text) {
			all = append(all, text)
		}
	}
	return all
}

func word(words ...string) kind { return kind{scalar: ofText, words: words} }
func oneOf(kinds ...kind) kind  { return kind{either: kinds} }
func listOf(item kind) kind     { return kind{list: &item} }
func someOf(item kind) kind     { return kind{list: &item, some: true} }
func named(each kind) kind      { return kind{names: &each} }
func like(s *shape) kind        { return kind{shape: s} }

// must returns the keys without which the mapping says nothing.
func (s *shape) must() (names []string) {
	for _, k := range s.keys {
		if k.must {
			names = append(names, k.name)
		}
	}
	return names
}

func wholeNumber(least, most int64) kind {
	return kind{what: "whole number", scalar: ofWholeNumber, least: &least, most: &most}
}

// names returns the names of the fields, in the order of the documentation.
func (s *shape) names() []string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.name
	}
	return names
}

func (s *shape) knows(name string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.name == name })
}
