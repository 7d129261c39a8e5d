package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with a configuration file, and where.
type Problem struct {
	File    string // as it was given to Load or Parse
	Line    int    // from 1; 0 when the file as a whole is meant
	Column  int    // from 1, in characters
	Path    string // for example jobs[backup].locks[0].scope; empty for YAML that cannot be read
	What    string // what is wrong
	Instead string // what to write instead; may be empty
	Warning bool   // the file works, but perhaps not as meant
}

// String returns the problem in one line: "file:line:column path: what; what
// to write instead".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	switch {
	case p.Line > 0:
		fmt.Fprintf(&b, ":%d:%d ", p.Line, p.Column)
	default:
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.What)
	if p.Instead != "" {
		b.WriteString("; " + p.Instead)
	}
	return b.String()
}

// Errors is returned when a configuration cannot be used. It has all the
// problems of the file, never only the first (but no more than ten thousand).
type Errors struct {
	Problems []Problem // by line and column; at least one
	Warnings []Problem // by line and column

	read contents
}

// shown bounds what Error prints. A file with more problems than that is not
// a configuration file.
const shown = 100

// Error returns the problems, one a line.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == shown {
			fmt.Fprintf(&b, "%s: %d more problems", p.File, len(e.Problems)-shown)
			break
		}
		b.WriteString(p.String())
	}
	return b.String()
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
