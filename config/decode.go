package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Bounds that no file meant for us comes near.
const (
	maxShared  = 200_000 // values that are reached through aliases
	maxMerges  = 32      // mappings that merge mappings that merge mappings
	maxFound   = 10_000  // problems
	maxMessage = 500     // characters of a message
	maxQuoted  = 60      // characters of a value in a message
)

// The tags that YAML gives to scalars, as far as they matter here.
const (
	tagString = "!!str"
	tagInt    = "!!int"
	tagBool   = "!!bool"
	tagNull   = "!!null"
	tagMerge  = "!!merge"
)

// A decoder walks a tree and collects what is wrong with it. Its methods
// report what they find and return false; callers go on with the next value.
type decoder struct {
	env      func(string) (string, bool)
	findings []finding
	warnings int // of the findings
	suggest  *suggester
	shared   int  // values reached through aliases so far
	torn     bool // do not speak of what seems to be missing

	circular map[*yaml.Node]bool // aliases that stand inside of what they stand for
	repeated map[*yaml.Node]bool // keys that were reported as duplicates
}

// A finding is a problem and the node that has it.
type finding struct {
	Problem
	node   *yaml.Node
	shared bool // found through an alias
}

func newDecoder(s source, env func(string) (string, bool)) *decoder {
	d := &decoder{
		env: env, suggest: newSuggester(), torn: s.torn,
		circular: map[*yaml.Node]bool{}, repeated: map[*yaml.Node]bool{},
	}
	d.findLoops(s.root, nil)
	return d
}

// findLoops marks the aliases that contain themselves. An alias can only name
// an anchor above it, so that every loop goes through a parent.
func (d *decoder) findLoops(n *yaml.Node, parents []*yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind == yaml.AliasNode {
		if slices.Contains(parents, n.Alias) {
			d.circular[n] = true
			d.problem(value{node: n, line: n.Line, column: n.Column},
				fmt.Sprintf("the alias *%s stands inside of &%s itself", n.Value, n.Value), "remove it")
		}
		return
	}
	parents = append(parents, n)
	for _, child := range n.Content {
		d.findLoops(child, parents)
	}
}

// A value is a node where it is used: through an alias, its position is that
// of the alias.
type value struct {
	node         *yaml.Node // never an alias; nil when there is no value
	path         string
	line, column int
	shared       bool
}

func (v value) exists() bool { return v.node != nil }

func (v value) child(path string) string {
	if v.path == "" {
		return path
	}
	return v.path + "." + path
}

// named is the path of a value whose name the author of the file chose.
func (v value) named(name string) string {
	label := shorten(name)
	if strings.ContainsFunc(label, func(c rune) bool { return !strconv.IsPrint(c) }) {
		label = quote(name)
	}
	return v.path + "[" + label + "]"
}

// use makes a value of a node that stands in parent.
func (d *decoder) use(n *yaml.Node, path string, parent value) value {
	v := value{node: n, path: path, line: n.Line, column: n.Column}
	if parent.shared {
		v.line, v.column, v.shared = parent.line, parent.column, true
	}
	for v.node != nil && v.node.Kind == yaml.AliasNode {
		v.shared = true
		if d.circular[v.node] {
			v.node = nil
			return v
		}
		v.node = v.node.Alias
	}
	if v.shared {
		if d.shared++; d.shared == maxShared {
			d.problem(v, fmt.Sprintf("the aliases stand for more than %d values", maxShared), "use fewer")
			d.torn = true
		}
		if d.shared >= maxShared {
			v.node = nil
		}
	}
	return v
}

func (d *decoder) problem(v value, what, instead string) {
	d.add(v, Problem{What: what, Instead: instead})
}

func (d *decoder) warn(v value, what, instead string) {
	d.add(v, Problem{What: what, Instead: instead, Warning: true})
}

// missing reports what is not there, unless it may have been in a part of the
// file that could not be read.
func (d *decoder) missing(v value, what, instead string) {
	if !d.torn {
		d.problem(v, what, instead)
	}
}

func (d *decoder) add(v value, p Problem) {
	found := len(d.findings) - d.warnings
	if p.Warning {
		found = d.warnings
	}
	if found >= maxFound {
		return
	}
	if p.Warning {
		d.warnings++
	}
	p.What, p.Instead = oneLine(p.What), oneLine(p.Instead)
	p.Line, p.Column, p.Path = v.line, v.column, v.path
	d.findings = append(d.findings, finding{Problem: p, node: v.node, shared: v.shared})
}

// oneLine makes a message fit for a terminal, whatever it quotes.
func oneLine(message string) string {
	var b strings.Builder
	for _, c := range clip(message, maxMessage) {
		if strconv.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		escaped := strconv.QuoteRune(c)
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}

// collect returns the problems and the warnings. A problem at an anchor exists
// at each of its aliases, too: it is reported once.
func (d *decoder) collect(file string) (problems, warnings []Problem) {
	type mistake struct {
		node *yaml.Node
		what string
	}
	atAnchor := map[mistake]bool{}
	for _, f := range d.findings {
		if !f.shared && f.node != nil {
			atAnchor[mistake{f.node, f.What}] = true
		}
	}
	for _, f := range d.findings {
		if f.shared && f.node != nil {
			if atAnchor[mistake{f.node, f.What}] {
				continue
			}
			if f.node.Line != f.Line || f.node.Column != f.Column {
				f.What += fmt.Sprintf(" (it stands at %d:%d)", f.node.Line, f.node.Column)
			}
		}
		f.File = file
		if f.Warning {
			warnings = append(warnings, f.Problem)
		} else {
			problems = append(problems, f.Problem)
		}
	}
	return problems, warnings
}

// filled reports whether there is a value: not a key without one.
func (d *decoder) filled(v value, instead string) bool {
	if !v.exists() {
		return false
	}
	if v.node.Kind == yaml.ScalarNode && v.node.Tag == tagNull {
		d.missing(v, "has no value", instead)
		return false
	}
	return true
}

// describe names a node as its author sees it.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.ScalarNode && n.Tag == tagNull:
		return "nothing"
	default:
		return quote(n.Value)
	}
}

// quote puts a text in quotes and cuts it where it gets too long to read.
func quote(text string) string {
	return fmt.Sprintf("%q", shorten(text))
}

func shorten(text string) string { return clip(text, maxQuoted) }

// clip cuts a text after so many characters.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > limit {
			return text[:i] + "…"
		}
	}
	return text
}
