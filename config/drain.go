package config

import (
	"fmt"
	"os"
	"time"
)

// Drain says what happens when the daemon stops, one limit after the other.
type Drain struct {
	// Cancel is how long runs that were cancelled, and their hooks, may take
	// before they are abandoned. Defaults to DefaultDrainCancel.
	Cancel time.Duration

	// Finish is how long runs may go on by themselves, before they are
	// cancelled. 0: not at all. Defaults to DefaultDrainTimeout.
	Finish time.Duration
}

// What a file without them gets.
const (
	DefaultDrainTimeout = 30 * time.Second // of drain.finish, for short drain_timeout
	DefaultDrainCancel  = 2 * time.Minute  // of drain.cancel
)

var drainShape = shape{
	name:    "drain",
	example: "write it like {finish: 30s, cancel: 2m}",
	keys: []key{
		{"finish", aDuration, formatDuration(DefaultDrainTimeout), "How long runs may go on by themselves before they are cancelled; 0: not at all."},
		{"cancel", aDuration, formatDuration(DefaultDrainCancel), "How long cancelled runs and their cleanup may take before they are abandoned."},
	},
	hints: map[string]string{"timeout": `did you mean "finish"?`, "grace": `did you mean "cancel"?`},
}

// drain reads the section, or the one number that is short for it.
func (r *reader) drain(o object, cfg *Config) {
	short := o.get("drain_timeout")
	if short.exists() {
		cfg.Drain.Finish, _ = r.notNegative(short)
	}
	if d, ok := r.optional(o.get("drain"), drainShape); ok {
		if v := d.get("finish"); v.exists() {
			length, _ := r.notNegative(v)
			if short.exists() {
				r.problem(short, fmt.Sprintf("drain_timeout is short for drain.finish, which stands at %d:%d", v.line, v.column), "remove one of them")
			}
			cfg.Drain.Finish = length
		}
		if v := d.get("cancel"); v.exists() {
			cfg.Drain.Cancel, _ = r.notNegative(v)
		}
	}
	cfg.DrainTimeout = cfg.Drain.Finish
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = -1
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
