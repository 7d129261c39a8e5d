package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// maxText is how long a text in a query or a form may be.
const maxText = 1000

// params reads what a query or a form says, within bounds, and collects what is
// wrong with it.
type params struct {
	values   url.Values
	known    []string
	problems []fieldProblem
}

// A fieldProblem is what is wrong with one field.
type fieldProblem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (p *params) wrong(field, format string, args ...any) {
	p.problems = append(p.problems, fieldProblem{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// text returns a text, "" when it is not there.
func (p *params) text(name string) string {
	p.known = append(p.known, name)
	values := p.values[name]
	if len(values) > 1 {
		p.wrong(name, "is given %d times; give it once", len(values))
		return ""
	}
	if len(values) == 0 {
		return ""
	}
	text := strings.TrimSpace(values[0])
	switch {
	case len(text) > maxText:
		p.wrong(name, "is longer than %d bytes; write less", maxText)
		return ""
	case !utf8.ValidString(text),
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }):
		p.wrong(name, "is not a text; write one in UTF-8 without control characters")
		return ""
	}
	return text
}

// number returns a whole number between least and most.
func (p *params) number(name string, otherwise, least, most int64) int64 {
	text := p.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		p.wrong(name, "%s is not a whole number from %d to %d", quoted(text), least, most)
		return otherwise
	}
	return n
}

// choice returns one of some words, the first one when it is not there.
func (p *params) choice(name string, words ...string) string {
	text := p.text(name)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		p.wrong(name, "%s is none of %s", quoted(text), strings.Join(words, ", "))
		return words[0]
	}
	return text
}

// flag returns whether a box is ticked.
func (p *params) flag(name string) bool {
	switch text := p.text(name); text {
	case "", "false", "off", "0":
		return false
	case "true", "on", "1", "yes":
		return true
	default:
		p.wrong(name, "%s is neither true nor false", quoted(text))
		return false
	}
}

// duration returns how long something is, between least and most.
func (p *params) duration(name string, otherwise, least, most time.Duration) time.Duration {
	if d := p.maybeDuration(name, least, most); d != nil {
		return *d
	}
	return otherwise
}

// maybeDuration is duration for what may be left out.
func (p *params) maybeDuration(name string, least, most time.Duration) *time.Duration {
	text := p.text(name)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		p.wrong(name, "%s is not a duration from %s to %s; write it like 30s, 10m or 2h",
			quoted(text), words.Duration(least), words.Duration(most))
		return nil
	}
	return &d
}

// done returns what is wrong, names that mean nothing here included; nil if all
// is well.
func (p *params) done(others ...string) []fieldProblem {
	for name := range p.values {
		if !slices.Contains(p.known, name) && !slices.Contains(others, name) {
			p.wrong(clip(name), "means nothing here; there are %s", strings.Join(p.known, ", "))
		}
	}
	slices.SortStableFunc(p.problems, func(a, b fieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return p.problems
}

// quoted is a text of somebody else in a message: short, and no more than text.
func quoted(s string) string { return strconv.Quote(clip(s)) }

func clip(s string) string {
	const enough = 80
	s = strings.ToValidUTF8(s, "\uFFFD")
	return words.Clip(s, enough)
}

func (p *params) isWrong(field string) bool {
	return slices.ContainsFunc(p.problems, func(f fieldProblem) bool { return f.Field == field })
}
