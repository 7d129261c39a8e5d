package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	maxSize  = 4 << 20 // of a file, in bytes
	maxDepth = 64      // of nesting
	maxTears = 5       // syntax errors after which the rest is not looked at
)

// A source is what YAML makes of a file: the tree, and the syntax errors.
type source struct {
	root     *yaml.Node // nil when there is nothing
	problems []Problem
	torn     bool // parts of the file could not be read: what seems to be missing may be there
}

// readSource parses data. After a syntax error it takes out the job or the
// section that has it and goes on, so that one run shows all that is wrong.
func readSource(data []byte) source {
	var s source
	if p, bad := unreadable(data); bad {
		return source{problems: []Problem{p}, torn: true}
	}
	text := newSourceText(data)
	for range maxTears {
		root, syntax := parseYAML(text.bytes())
		if syntax == nil {
			s.root = root
			return s
		}
		if cause, found := text.cause(syntax); found {
			syntax = cause
		}
		// An anchor may have stood in what was taken out.
		if known := !strings.Contains(syntax.message, "unknown anchor"); known || !s.torn {
			s.problems = append(s.problems, text.explain(syntax))
		}
		if syntax.secondDocument && text.cut(syntax.line) {
			continue
		}
		s.torn = true
		if !text.tear(startLine(syntax)) {
			break
		}
	}
	return s
}

// unreadable finds what YAML would refuse without saying where.
func unreadable(data []byte) (Problem, bool) {
	if len(data) > maxSize {
		return Problem{
			What:    fmt.Sprintf("the file has %d bytes; %d are the limit", len(data), maxSize),
			Instead: "split it over several daemons",
		}, true
	}
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return Problem{Line: line, Column: column, What: "this is not UTF-8", Instead: "save the file as UTF-8"}, true
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0 && r != 0x85,
			r == 0xfffe, r == 0xffff:
			return Problem{
				Line: line, Column: column,
				What:    fmt.Sprintf("control character %U", r),
				Instead: `remove it, or write it as an escape such as "\x1b" in double quotes`,
			}, true
		case r == '\n':
			line, column = line+1, 0
		}
		i += size
		column++
	}
	return Problem{}, false
}

// syntaxError is where the YAML parser gave up, and what it was reading.
type syntaxError struct {
	message             string
	context             string // what was being read
	line, column        int
	startLine, startCol int // of the list, mapping or quoted text it was in; 0 when that does not matter
	secondDocument      bool
}

func parseYAML(data []byte) (root *yaml.Node, syntax *syntaxError) {
	// A parser's bug is the operator's problem with this file, not a reason to die.
	defer func() {
		if r := recover(); r != nil {
			root, syntax = nil, &syntaxError{message: fmt.Sprintf("the YAML parser failed: %v", r), line: 1, column: 1}
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(data),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, &syntaxError{message: err.Error(), line: 1, column: 1}
	}
	var document, second yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, newSyntaxError(err)
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, newSyntaxError(err)
	default:
		return nil, &syntaxError{secondDocument: true, line: second.Line, column: max(second.Column, 1)}
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	return document.Content[0], nil
}

func newSyntaxError(err error) *syntaxError {
	s := &syntaxError{message: err.Error(), line: 1, column: 1}
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return s
	}
	s.message, s.context = load.Message, load.ContextMsg
	s.line, s.column = max(load.Mark.Line, 1), max(load.Mark.Column, 1)
	if c := load.ContextMsg; strings.Contains(c, "flow sequence") || strings.Contains(c, "flow mapping") ||
		strings.Contains(c, "quoted") {
		s.startLine, s.startCol = load.ContextMark.Line, load.ContextMark.Column
	}
	return s
}

func startLine(s *syntaxError) int {
	if s.startLine > 0 {
		return s.startLine
	}
	return s.line
}
