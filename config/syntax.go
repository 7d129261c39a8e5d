package config

import (
	"fmt"
	"strings"
)

// sourceText is a file line by line.
type sourceText struct {
	lines []string
	odd   bool // other line breaks than \n and \r\n: lines cannot be counted as YAML does
}

func newSourceText(data []byte) *sourceText {
	text := string(data)
	odd := strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), "\r") ||
		strings.ContainsAny(text, "\u0085\u2028\u2029")
	return &sourceText{lines: strings.Split(text, "\n"), odd: odd}
}

func (t *sourceText) bytes() []byte { return []byte(strings.Join(t.lines, "\n")) }

// at returns the text from a position to the end of the line.
func (t *sourceText) at(line, column int) string {
	if t.odd || line < 1 || line > len(t.lines) {
		return ""
	}
	runes := []rune(strings.TrimSuffix(t.lines[line-1], "\r"))
	if column < 1 || column > len(runes) {
		return ""
	}
	return string(runes[column-1:])
}

// cut drops a line and all that follows.
func (t *sourceText) cut(line int) bool {
	if t.odd || line < 1 || line > len(t.lines) {
		return false
	}
	t.lines = t.lines[:line-1]
	return true
}

// tear takes the job, scope or section with the given line out of the text.
// It reports whether there was anything to take out.
func (t *sourceText) tear(line int) bool {
	if t.odd {
		return false
	}
	at := min(line, len(t.lines)) - 1
	for at >= 0 && indent(t.lines[at]) < 0 {
		at--
	}
	if at < 0 {
		return false
	}
	top := at
	for top > 0 && indent(t.lines[top]) != 0 {
		top--
	}
	first, inside := top, 0
	if at > top && (strings.HasPrefix(t.lines[top], "jobs:") || strings.HasPrefix(t.lines[top], "scopes:")) {
		for i := top + 1; i <= at && inside == 0; i++ {
			inside = max(indent(t.lines[i]), 0)
		}
		for first = at; indent(t.lines[first]) < 0 || indent(t.lines[first]) > inside; first-- {
		}
	}
	t.lines[first] = ""
	for i := first + 1; i < len(t.lines); i++ {
		if n := indent(t.lines[i]); n >= 0 && n <= inside {
			break
		}
		t.lines[i] = ""
	}
	return true
}

// indent counts the blanks in front of a line, a tab as 8; -1 for an empty
// line or a comment.
func indent(line string) int {
	n := 0
	for _, c := range strings.TrimRight(line, "\r\t ") {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 8
		case '#':
			return -1
		default:
			return n
		}
	}
	return -1
}

// farthest is how many lines above an error its cause is looked for.
const farthest = 50

// cause looks above an error for quotes or brackets that were not closed: YAML
// complains only where it can make no sense of what follows.
func (t *sourceText) cause(s *syntaxError) (cause *syntaxError, found bool) {
	if t.odd || s.startLine > 0 || s.secondDocument {
		return nil, false
	}
	here := ""
	if s.line <= len(t.lines) {
		here = t.lines[s.line-1]
	}
	for line := min(s.line-1, len(t.lines)); line >= 1 && line > s.line-farthest; line-- {
		open := scanLine(t.lines[line-1])
		switch {
		case open.quote != 0:
			closing := strings.IndexRune(here, open.quote)
			between := strings.Join(t.lines[line:max(line, min(s.line-1, len(t.lines)))], "")
			if closing < 0 || len([]rune(here[:closing])) >= s.column || strings.ContainsRune(between, open.quote) {
				return nil, false
			}
			return &syntaxError{
				message: fmt.Sprintf("the quotes that open here are closed only at %d:%d", s.line, len([]rune(here[:closing]))+1),
				context: "quotes", line: line, column: open.column,
			}, true
		case open.bracket != 0 && indent(here) <= indent(t.lines[line-1]):
			return &syntaxError{
				message: "did not find expected ','",
				context: map[rune]string{'[': "flow sequence", '{': "flow mapping"}[open.bracket],
				line:    s.line, column: s.column, startLine: line, startCol: open.column,
			}, true
		case open.closes:
			return nil, false
		}
	}
	return nil, false
}

// opened is what a line opens and does not close.
type opened struct {
	quote, bracket rune
	column         int
	closes         bool // it closes a bracket of an earlier line
}

func scanLine(line string) opened {
	var brackets []opened
	var quote opened
	closes := false
	before, column := ':', 0
	for _, c := range line {
		column++
		switch {
		case quote.quote != 0:
			if c == quote.quote && before != '\\' {
				quote = opened{}
			}
		case c == '#' && (before == ' ' || column == 1):
			return unclosed(quote, brackets, closes)
		case (c == '"' || c == '\'') && strings.ContainsRune(":-[{, ", before):
			quote = opened{quote: c, column: column}
		case c == '[' || c == '{':
			brackets = append(brackets, opened{bracket: c, column: column})
		case c == ']' || c == '}':
			closes = closes || len(brackets) == 0
			brackets = brackets[:max(len(brackets)-1, 0)]
		}
		before = c
	}
	return unclosed(quote, brackets, closes)
}

func unclosed(quote opened, brackets []opened, closes bool) opened {
	switch {
	case quote.quote != 0:
		return quote
	case len(brackets) > 0:
		return brackets[0]
	}
	return opened{closes: closes}
}

// cron finds an unquoted cron expression that starts with *, which YAML takes
// for an alias.
func (t *sourceText) cron(line int) (spec string, column int) {
	text := t.at(line, 1)
	if _, after, found := strings.Cut(text, ": *"); found {
		spec, _, _ = strings.Cut("*"+after, " #")
		spec = strings.TrimSpace(spec)
		if n := len(strings.Fields(spec)); (n == 5 || n == 6) && !strings.ContainsAny(spec, `"'`) {
			return spec, len([]rune(text)) - len([]rune(after))
		}
	}
	return "", 0
}

// explain says in an operator's words what the parser did not understand.
func (t *sourceText) explain(s *syntaxError) Problem {
	p := Problem{
		Line: s.line, Column: s.column, What: "not YAML: " + s.message, Instead: "check the indentation and the quotes",
	}
	here := t.at(s.line, s.column)
	value, _, _ := strings.Cut(here, " #")
	value = strings.TrimRight(value, " \t")
	spec, specColumn := t.cron(s.line)
	says := func(text string) bool { return strings.Contains(s.message, text) }
	switch {
	case s.secondDocument:
		p.What, p.Instead = "a second document starts here", "keep one document in a file"
	case s.context == "quotes":
		p.Instead = "close them on the same line"
	case says("max depth"):
		p.What, p.Instead = fmt.Sprintf("nested deeper than %d levels", maxDepth), "write it flatter"
	case spec != "":
		p.Column = specColumn
		p.What, p.Instead = "not YAML: a value that starts with * is an alias", "write "+quote(spec)
	case strings.HasPrefix(here, "\t"):
		p.What, p.Instead = "not YAML: a tab cannot indent", "write spaces"
	case says("unknown anchor"):
		p.What = fmt.Sprintf("no anchor %s stands before this alias", quote("&"+strings.TrimPrefix(value, "*")))
		p.Instead = "define it above, or put the value in quotes"
	case says("cannot start any token") && value != "":
		p.What, p.Instead = fmt.Sprintf("not YAML: a value cannot start with %s", value[:1]), "write "+quote(value)
	case says("mapping values are not allowed"):
		p.What, p.Instead = `not YAML: unexpected ":"`,
			`check the indentation and the line above; a value that contains ": " needs quotes`
	case says("sequence entries are not allowed"):
		p.What, p.Instead = `not YAML: unexpected "-"`, "start the list on a line of its own"
	case says("could not find expected ':'"):
		p.What, p.Instead = `not YAML: the line above has no ":"`, `write "name: value"`
	case says("did not find expected key"):
		p.What = "not YAML: this does not continue what stands above"
	case s.startLine > 0 && says("unexpected end of stream"):
		p.Line, p.Column = s.startLine, s.startCol
		p.What, p.Instead = "not YAML: the quotes that open here are not closed", "close them"
	case s.startLine > 0 && says("did not find expected ','"):
		p.Line, p.Column = s.startLine, s.startCol
		p.What = fmt.Sprintf("not YAML: what opens here is not closed, as seen at %d:%d", s.line, s.column)
		p.Instead = `write "]" at its end`
		if strings.Contains(s.context, "mapping") {
			p.Instead = `write "}" at its end`
		}
		if strings.Contains(t.at(s.startLine, 1), "${") {
			p.Instead = "write ${...} inside of [ ] and { } in quotes"
		}
	}
	return p
}
