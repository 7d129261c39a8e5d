package config

import (
	"github.com/lockkeeper/lockkeeper/recipes/assignment"
	"github.com/lockkeeper/lockkeeper/recipes/group"
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
		to("spread", yesOrNo, false, "Each job belongs to one of the daemons, which alone claims its ticks.",
			func(s *Scheduler) *bool { return &s.Spread }),
		to("strategy", choice[string](assignment.Names()...), filled(group.DefaultStrategy), "How the jobs are spread.",
			func(s *Scheduler) *string { return &s.Strategy }),
		to("name", of[string]{kind: aText, read: (*reader).schedulerName}, "host:pid",
			"Tells the daemons apart; each has another one.", func(s *Scheduler) *string { return &s.Name }),
	},
	later: []string{"lateness", "pins", "weights", "participants"},
	hints: map[string]string{"drain_timeout": "it belongs to the file, beside scheduler"},
}

func (r *reader) schedulerName(v value) (string, bool) {
	name, ok := r.text(v, "write a name that no other daemon has, for example ${HOSTNAME}")
	if ok {
		r.checkGroupName(v, name, "a participant")
	}
	return name, ok
}

func (r *reader) checkScheduler(o object, s *Scheduler) {
	if s.Spread {
		return
	}
	for _, field := range []string{"strategy", "name"} {
		if v := o.get(field); v.exists() {
			r.warn(v, field+" has no effect without spread: true", "write spread: true, or remove it")
		}
	}
}
