package override

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/priority"
)

// CheckLabel returns an error, which says what to write instead, unless a job or
// a match can have a label: a name of letters, digits, dots, underscores,
// hyphens and slashes with a value of printable characters, each at most 200
// bytes.
func CheckLabel(name, value string) error {
	for i, c := range name {
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letterOrDigit && (i == 0 || !strings.ContainsRune("._-/", c)) {
			return fmt.Errorf(
				"the name %q has %q in it; write letters, digits, dots, underscores, hyphens and slashes, a letter or digit first",
				name, c)
		}
	}
	switch {
	case name == "":
		return errors.New("a label has no name; write for example team: orders")
	case len(name) > maxLabel:
		return fmt.Errorf("the name takes %d bytes; write at most %d", len(name), maxLabel)
	case len(value) > maxLabel:
		return fmt.Errorf("the value takes %d bytes; write at most %d", len(value), maxLabel)
	case !printable(value):
		return fmt.Errorf("the value %q has a control character or invalid UTF-8 in it; write printable characters", value)
	}
	return nil
}

// match checks what holds for every kind.
func (c *checker) match(m Match) {
	c.pattern("match.scope", m.Scope)
	c.pattern("match.job", m.Job)
	if reason := refuseScope(m.Scope); reason != "" {
		c.refuse("match.scope", "%s", reason)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		if err := CheckLabel(name, m.Labels[name]); err != nil {
			c.refuse("match.labels["+name+"]", "%v", err)
		}
	}
	if n := len(m.Labels); n > maxLabels {
		c.refuse("match.labels", "has %d labels; write at most %d", n, maxLabels)
	}
	below, above := m.PriorityBelow, m.PriorityAbove
	switch {
	case below == nil:
	case *below <= priority.Default:
		c.refuse("match.priority_below", "nothing is below %d; write 1 or more", *below)
	case above != nil && int64(*above)+1 >= int64(*below):
		c.refuse("match.priority_above",
			"no priority is above %s and below %s; write a lower one", level(*above), level(*below))
	}
	switch {
	case above == nil:
	case *above < priority.Default:
		c.refuse("match.priority_above", "%d is below the lowest; write 0 or more", *above)
	case *above == priority.Emergency:
		c.refuse("match.priority_above", "nothing is above emergency; write a lower one")
	}
}

func (c *checker) pattern(field, pattern string) {
	switch {
	case len(pattern) > maxPattern:
		c.refuse(field, "takes %d bytes; write at most %d", len(pattern), maxPattern)
	case !printable(pattern):
		c.refuse(field, "%q has a control character or invalid UTF-8 in it; write printable characters", pattern)
	}
}

// matchOf checks what a kind makes of its match.
func (c *checker) matchOf(kind Kind, m Match) {
	given := m.given()
	unwanted := func(reason string, wanted ...string) {
		for _, field := range given {
			if !slices.Contains(wanted, field) {
				c.refuse("match."+field, "%s; remove it", reason)
			}
		}
	}
	switch kind {
	case Hold, PreemptNow:
		switch {
		case m.Scope == "":
			c.refuse("match.scope", "is missing; write the scope whose lock is meant, without wildcards")
		case hasWildcard(m.Scope):
			c.refuse("match.scope", "%q has a wildcard in it, and %s takes one lock; write one scope", m.Scope, kind)
		}
		unwanted(fmt.Sprintf("%s takes the lock of one scope, from any holder", kind), "scope")
	case Pause:
		unwanted("pause concerns jobs as a whole: it has no scope and no priority", "job", "labels")
	case Bypass:
		if strings.Trim(m.Scope+m.Job, "*?") == "" {
			c.refuse("match", "nothing would have a lock any more; name a scope or a job")
		}
	case Boost, Cap, Freeze, Extend:
	}
}

// given names the fields of a match that say something.
func (m Match) given() (fields []string) {
	add := func(field string, is bool) {
		if is {
			fields = append(fields, field)
		}
	}
	add("scope", m.Scope != "")
	add("job", m.Job != "")
	add("labels", len(m.Labels) > 0)
	add("priority_below", m.PriorityBelow != nil)
	add("priority_above", m.PriorityAbove != nil)
	return fields
}
