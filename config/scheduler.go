package config

import (
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
)

// Scheduler says how the daemon shares its jobs with others.
type Scheduler struct {
	// Name is the daemon's among those that share its jobs: no other one may
	// have it at the same time. Empty when the file says nothing: the program
	// has to make one.
	Name string

	// Spread gives each job to one daemon, which alone decides its ticks.
	// Defaults to false: every daemon asks for every tick.
	Spread bool

	// Strategy says which daemon that is. Defaults to balanced.
	Strategy string
}

var schedulerShape = shape{
	name:    "scheduler",
	example: "write it like {spread: true, strategy: balanced}",
	keys: []key{
		{"spread", aBoolean, "false", "Each job belongs to one of the daemons, which alone claims its ticks."},
		{"strategy", word(assignment.Names()...), recipes.DefaultGroupStrategy, "How the jobs are spread."},
		{"name", aText, "host:pid", "Tells the daemons apart; each has another one."},
	},
	later: []string{"lateness", "pins", "weights", "participants"},
	hints: map[string]string{"drain_timeout": "it belongs to the file, beside scheduler"},
}

func (r *reader) scheduler(v value) Scheduler {
	s := Scheduler{Strategy: recipes.DefaultGroupStrategy}
	o, ok := r.optional(v, schedulerShape)
	if !ok {
		return s
	}
	if v := o.get("spread"); v.exists() {
		s.Spread, _ = r.boolean(v)
	}
	if v := o.get("strategy"); v.exists() {
		if name, ok := r.word(v, assignment.Names()...); ok {
			s.Strategy = name
		}
	}
	if v := o.get("name"); v.exists() {
		const instead = "write a name that no other daemon has, for example ${HOSTNAME}"
		if name, ok := r.text(v, instead); ok {
			s.Name = name
			r.checkGroupName(v, name, "a participant")
		}
	}
	if !s.Spread {
		for _, field := range []string{"strategy", "name"} {
			if v := o.get(field); v.exists() {
				r.warn(v, field+" has no effect without spread: true", "write spread: true, or remove it")
			}
		}
	}
	return s
}
