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
		{"finish", aDuration, formatDuration(scheduler.DefaultDrainFinish), "How long runs may go on by themselves before they are cancelled; 0: not at all."},
		{"cancel", aDuration, formatDuration(scheduler.DefaultDrainCancel), "How long the work of cancelled runs may take to return; their cleanup has its own timeouts."},
		{"release", aDuration, formatDuration(scheduler.DefaultDrainRelease), "How long locks may take to be given back, and ends of runs to be recorded, before what is left is abandoned."},
	},
	hints: map[string]string{"timeout": `did you mean "finish"?`, "grace": `did you mean "cancel"?`},
}

// drain reads the section, or the one number that is short for it.
func (r *reader) drain(o object, cfg *Config) {
	limit := func(v value, into *time.Duration) {
		if !v.exists() {
			return
		}
		if *into, _ = r.notNegative(v); *into == 0 {
			*into = -1 // no time, as the scheduler has it
		}
	}
	short := o.get("drain_timeout")
	limit(short, &cfg.Drain.Finish)
	if d, ok := r.optional(o.get("drain"), drainShape); ok {
		if v := d.get("finish"); v.exists() && short.exists() {
			r.problem(short, fmt.Sprintf("drain_timeout is short for drain.finish, which stands at %d:%d", v.line, v.column), "remove one of them")
		}
		limit(d.get("finish"), &cfg.Drain.Finish)
		limit(d.get("cancel"), &cfg.Drain.Cancel)
		limit(d.get("release"), &cfg.Drain.Release)
	}
}

// stateDir reads the directory of the daemon's own files. The daemon makes it.
func (r *reader) stateDir(v value) string {
	name, ok := r.text(v, "write the name of a directory")
	if !ok {
		return ""
	}
	path := r.resolve(name)
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		r.problem(v, fmt.Sprintf("%q is not a directory", path), "name a directory, or what may become one")
	}
	return path
}
