package config

import "slices"

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
	aSize     = kind{what: "size", scalar: ofSize}
	aFile     = kind{what: "file", scalar: ofText}
	aZone     = kind{what: "time zone", scalar: ofText}
	nothing   = kind{what: "nothing", scalar: ofNothing}
	aSchedule = kind{what: "schedule", scalar: ofText}

	// aLimit is a duration that can be taken back.
	aLimit = oneOf(aDuration, word(unset))
)

func word(words ...string) kind { return kind{scalar: ofText, words: words} }
func oneOf(kinds ...kind) kind  { return kind{either: kinds} }
func listOf(item kind) kind     { return kind{list: &item} }
func someOf(item kind) kind     { return kind{list: &item, some: true} }
func named(each kind) kind      { return kind{names: &each} }
func like(s *shape) kind        { return kind{shape: s} }

func wholeNumber(least, most int64) kind {
	return kind{what: "whole number", scalar: ofWholeNumber, least: &least, most: &most}
}

// A key is one field of a shape.
type key struct {
	name    string
	kind    kind
	without string // what holds without it, as it would be written; "" when nothing does
	doc     string // what it means, in one line
}

// names returns the names of the fields, in the order of the documentation.
func (s shape) names() []string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.name
	}
	return names
}

func (s shape) knows(name string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.name == name })
}
