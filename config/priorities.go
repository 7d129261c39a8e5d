package config

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/priority"
)

// never is the value of `preempts` for a class that never preempts.
const never = "never"

// levelKind is a priority as a number. The one above is for operators.
var levelKind = wholeNumber(0, int64(priority.Emergency)-1)

const deltaInstead = "write by how much a priority has to be higher to preempt, 0 or more"

var deltaOf = number[int](0, int64(priority.Emergency)-1, deltaInstead)

const classesExample = "write it like {classes: {critical: 90, batch: 20}}"

var prioritiesShape = shape{
	name:    "priorities",
	example: classesExample,
	keys: []key{
		compared(by("classes", named(oneOf(levelKind, like(&classShape))), "", "Names for priorities.",
			(*reader).readClasses), func(c *Config) map[string]priority.Level { return c.Classes }, nil),
		by("preempt_delta", deltaOf.kind, "0",
			"By how much a priority has to be higher to preempt; 0 and 1: any higher one does.", (*reader).delta),
	},
	later: []string{"may_force"},
	hints: map[string]string{"min_runtime": "it belongs to a lock, or to all: defaults: {lock: {min_runtime: ...}}"},
}

var classShape = shape{
	name:    "a class",
	example: "write a number such as 50, or {value: 50}",
	keys: []key{
		needed(apart("value", levelKind, "", "The priority that the name stands for.")),
		apart("preempts", word(never), "", "never: it orders the queue, and preempts no holder."),
	},
	later: []string{"may_force", "default"},
	hints: map[string]string{"priority": `did you mean "value"?`, "level": `did you mean "value"?`},
}

// delta reads by how much a priority has to be higher. priority.Terms says what is wrong with one that is negative.
func (r *reader) delta(v value, _ *Config) {
	n, ok := r.integer(v, deltaInstead)
	switch {
	case !ok:
	case n < 0:
		r.refused(v, priority.Terms{PreemptDelta: int(n)}.Validate())
	default:
		r.preemptDelta, _ = deltaOf.read(r, v)
	}
}

// readClasses reads the named priorities.
func (r *reader) readClasses(v value, _ *Config) {
	entries, _ := r.entries(v, classesExample, v.named)
	for _, e := range entries {
		if r.classNamed(e) {
			rank, _ := r.classValue(e.value)
			r.classes[e.name] = class{rank: rank, at: e.key}
		}
	}
}

// adviseClasses warns of a class that looks like the default and is none.
func (r *reader) adviseClasses(locks lockSettings) {
	if c, ok := r.classes["default"]; ok && !locks.priority.given {
		r.warn(c.at, "this class is no default: locks without a priority have priority 0",
			"write defaults: {lock: {priority: default}} as well")
	}
}

func (r *reader) classNamed(e entry) bool {
	switch {
	case e.key.node.Tag != tagString || e.name == "":
		r.problem(e.key, quote(e.name)+" is not the name of a class", "write a word")
	case e.name == "emergency":
		r.problem(e.key,
			`"emergency" is the highest priority, reserved for operators' overrides`, "name the class otherwise")
	default:
		return true
	}
	return false
}

func (r *reader) classValue(v value) (rank, bool) {
	var class rank
	if !v.exists() {
		return class, false
	}
	if v.node.Kind == yaml.MappingNode {
		o, ok := r.object(v, &classShape)
		if !ok {
			return class, false
		}
		if v := o.get("preempts"); v.exists() {
			_, class.neverPreempts = r.word(v, never)
		}
		if !o.has("value") {
			r.missing(v, "value is missing", classShape.example)
			return class, false
		}
		v = o.get("value")
	}
	n, ok := r.integer(v, classShape.example)
	if !ok {
		return class, false
	}
	class.level, ok = r.level(v, n)
	return class, ok
}

func (r *reader) level(v value, n int64) (priority.Level, bool) {
	level, err := priority.LevelOf(n)
	return level, !r.refused(v, err)
}

// priority reads a number or the name of a class.
func (r *reader) priority(v value) (rank, bool) {
	const instead = "write a number, 0 or more, or the name of a class in priorities.classes"
	s, ok := r.scalar(v, instead)
	if !ok {
		return rank{}, false
	}
	if s.tag == tagInt || s.expanded && isNumber(s.text) {
		n, ok := r.integer(v, instead)
		if !ok {
			return rank{}, false
		}
		level, ok := r.level(v, n)
		return rank{level: level}, ok
	}
	c, known := r.classes[s.text]
	switch {
	case known:
		return c.rank, true
	case s.text == "emergency":
		r.problem(v, `"emergency" is reserved for operators' overrides`,
			fmt.Sprintf("write %d or less, and let an operator override in an emergency", priority.Emergency-1))
		return rank{}, false
	case isNumber(s.text):
		r.problem(v, s.quoted()+" is a text", fmt.Sprintf("write %s without quotes", s.text))
		return rank{}, false
	}
	if r.classNames == nil {
		r.classNames = slices.Sorted(maps.Keys(r.classes))
	}
	what := fmt.Sprintf("unknown priority class %s", s.quoted())
	switch meant := r.suggest.didYouMean(s.text, r.classNames); {
	case meant != "":
		r.missing(v, what, meant)
	case len(r.classNames) > 0:
		r.missing(v, what, "priorities.classes has "+words.Few(r.classNames, fewNames))
	default:
		r.missing(v, what, "define it in priorities.classes, or write a number")
	}
	return rank{}, false
}
