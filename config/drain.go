package config

import (
	"fmt"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/scheduler"
)

var drainShape = shape{
	name:    "drain",
	example: "write it like {finish: 30s, cancel: 1m}",
	keys: []key{
		to("finish", aDrainLimit, scheduler.DefaultDrainFinish,
			"How long runs may go on by themselves before they are cancelled; 0: not at all.",
			func(d *scheduler.Drain) *time.Duration { return &d.Finish }),
		to("cancel", aDrainLimit, scheduler.DefaultDrainCancel,
			"How long the work of cancelled runs may take to return; their cleanup has its own timeouts.",
			func(d *scheduler.Drain) *time.Duration { return &d.Cancel }),
		to("release", aDrainLimit, scheduler.DefaultDrainRelease,
			"How long locks may take to be given back, and ends of runs to be recorded, before what is left is abandoned.",
			func(d *scheduler.Drain) *time.Duration { return &d.Release }),
	},
	hints: map[string]string{"timeout": `did you mean "finish"?`, "grace": `did you mean "cancel"?`},
}

// aDrainLimit is negative for no time, as the scheduler has it.
var aDrainLimit = of[time.Duration]{
	kind: aDuration, show: limit, read: func(r *reader, v value) (time.Duration, bool) {
		d, ok := r.notNegative(v)
		if d == 0 {
			d = -1
		}
		return d, ok
	},
}

// shortDrain reads the one number that is short for the section.
func (r *reader) shortDrain(v value, c *Config) {
	c.Drain.Finish, _ = aDrainLimit.read(r, v)
	if at := r.drainFinish; at.exists() && v.exists() {
		r.problem(v, fmt.Sprintf("drain_timeout is short for drain.finish, which stands at %d:%d", at.line, at.column),
			"remove one of them")
	}
}

// stateDir reads the directory of the daemon's own files. The daemon makes it.
func (r *reader) stateDir(v value) (string, bool) {
	name, ok := r.text(v, "write the name of a directory")
	if !ok {
		return "", false
	}
	path := r.resolve(name)
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		r.problem(v, fmt.Sprintf("%q is not a directory", path), "name a directory, or what may become one")
	}
	return path, true
}
