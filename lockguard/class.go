package lockguard

import (
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
)

// WithClasses declares the templates that scopes are made from, so that a
// Requirement that sets no Class has the first of them that its scope fits:
// "tenant/{id}/billing" fits "tenant/7/billing". A part in braces fits any one part of
// a scope, everything else itself. A template without braces is a scope of which
// there is one. Give the same templates to metrics, which can show them before
// anything has happened. It can be given several times.
func WithClasses(templates ...string) Option {
	return func(g *Guard) error {
		for _, text := range templates {
			class, err := parseClass(text)
			if err != nil {
				return fmt.Errorf("lockguard: WithClasses: %w", err)
			}
			g.classes = append(g.classes, class)
		}
		return nil
	}
}

// A class is a template of scopes.
type class struct {
	text  string
	parts []string
}

func parseClass(text string) (class, error) {
	if err := priority.CheckClass(text); err != nil {
		return class{}, err
	}
	parts := strings.Split(text, "/")
	for _, part := range parts {
		if part == "" || !isPlaceholder(part) && strings.ContainsAny(part, "{}") {
			return class{}, &RequestError{Field: "class", Reason: fmt.Sprintf("%q is no template of scopes: "+
				"braces go around whole parts, and no part is empty; write such as tenant/{id}/billing", text)}
		}
	}
	return class{text: text, parts: parts}, nil
}

func isPlaceholder(part string) bool {
	return len(part) > 2 && part[0] == '{' && part[len(part)-1] == '}' && !strings.ContainsAny(part[1:len(part)-1], "{}")
}

// fits reports whether a scope can have been made from the template.
func (c class) fits(scope string) bool {
	rest, more := scope, true
	for _, part := range c.parts {
		if !more {
			return false
		}
		var have string
		have, rest, more = strings.Cut(rest, "/")
		if have != part && !isPlaceholder(part) {
			return false
		}
	}
	return !more
}

type classes []class

// of returns the first that a scope fits; "": there is none.
func (all classes) of(scope string) string {
	for _, c := range all {
		if c.fits(scope) {
			return c.text
		}
	}
	return ""
}
