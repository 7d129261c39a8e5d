package config

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/priority"
)

// levelKind is a priority as a number. The one above is for operators.
var levelKind = wholeNumber(0, int64(priority.Emergency)-1)

var prioritiesShape = shape{
	name:    "priorities",
	example: "write it like {classes: {critical: 90, batch: 20}}",
	keys:    []key{{"classes", named(oneOf(levelKind, like(&classShape))), "", "Names for priorities."}},
	later:   []string{"preempt_delta", "may_force", "min_runtime"},
}

var classShape = shape{
	name:    "a class",
	example: "write a number such as 50, or {value: 50}",
	keys:    []key{{"value", levelKind, "", "The priority that the name stands for."}},
	must:    []string{"value"},
	later:   []string{"preempts", "may_force", "min_runtime", "default"},
	hints:   map[string]string{"priority": `did you mean "value"?`, "level": `did you mean "value"?`},
}

// priorities reads the named priorities.
func (r *reader) priorities(v value) {
	r.classes = map[string]class{}
	if !v.exists() {
		return
	}
	o, ok := r.object(v, prioritiesShape)
	if !ok || !o.get("classes").exists() {
		return
	}
	classes := o.get("classes")
	entries, _ := r.entries(classes, prioritiesShape.example, classes.named)
	for _, e := range entries {
		if !r.classNamed(e) {
			continue
		}
		level, _ := r.classValue(e.value)
		r.classes[e.name] = class{level: level, at: e.key}
	}
}

// adviseClasses warns of a class that looks like the default and is none.
func (r *reader) adviseClasses(locks lockSettings) {
	if c, ok := r.classes["default"]; ok && !locks.priority.given {
		r.warn(c.at, "this class is no default: locks without a priority have priority 0", "write defaults: {lock: {priority: default}} as well")
	}
}

func (r *reader) classNamed(e entry) bool {
	switch {
	case e.key.node.Tag != tagString || e.name == "":
		r.problem(e.key, quote(e.name)+" is not the name of a class", "write a word")
	case e.name == "emergency":
		r.problem(e.key, `"emergency" is the highest priority, reserved for operators' overrides`, "name the class otherwise")
	default:
		return true
	}
	return false
}

func (r *reader) classValue(v value) (priority.Level, bool) {
	if !v.exists() {
		return 0, false
	}
	if v.node.Kind == yaml.MappingNode {
		o, ok := r.object(v, classShape)
		if !ok {
			return 0, false
		}
		if !o.has("value") {
			r.missing(v, "value is missing", classShape.example)
			return 0, false
		}
		v = o.get("value")
	}
	n, ok := r.integer(v, classShape.example)
	if !ok {
		return 0, false
	}
	return r.level(v, n)
}

func (r *reader) level(v value, n int64) (priority.Level, bool) {
	if n > int64(priority.Emergency) {
		r.problem(v, fmt.Sprintf("priority %d is above the highest", n), fmt.Sprintf("write a number from 0 to %d", priority.Emergency-1))
		return 0, false
	}
	n = max(n, -1<<31)
	if r.refused(v, priority.Level(n).CheckJob()) {
		return 0, false
	}
	return priority.Level(n), true
}

// priority reads a number or the name of a class.
func (r *reader) priority(v value) (priority.Level, bool) {
	const instead = "write a number, 0 or more, or the name of a class in priorities.classes"
	s, ok := r.scalar(v, instead)
	if !ok {
		return 0, false
	}
	if s.tag == tagInt || s.expanded && isNumber(s.text) {
		n, ok := r.integer(v, instead)
		if !ok {
			return 0, false
		}
		return r.level(v, n)
	}
	c, known := r.classes[s.text]
	switch {
	case known:
		return c.level, true
	case s.text == "emergency":
		r.problem(v, `"emergency" is reserved for operators' overrides`, fmt.Sprintf("write %d or less, and let an operator override in an emergency", priority.Emergency-1))
		return 0, false
	case isNumber(s.text):
		r.problem(v, s.quoted()+" is a text", fmt.Sprintf("write %s without quotes", s.text))
		return 0, false
	}
	if r.classNames == nil {
		r.classNames = slices.Sorted(maps.Keys(r.classes))
	}
	what := fmt.Sprintf("unknown priority class %s", s.quoted())
	switch meant := r.suggest.didYouMean(s.text, r.classNames); {
	case meant != "":
		r.missing(v, what, meant)
	case len(r.classNames) > 0:
		r.missing(v, what, "priorities.classes has "+list(r.classNames))
	default:
		r.missing(v, what, "define it in priorities.classes, or write a number")
	}
	return 0, false
}
