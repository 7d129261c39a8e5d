package config

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Defaults are what the jobs of a file have unless they say otherwise.
type Defaults struct {
	Job  jobs.Job              // policies and TimeZone (defaults to UTC) alone
	Lock lockguard.Requirement // without a scope
}

const defaultZone = "UTC"

var defaultsShape = shape{
	name:    "defaults",
	example: "write it like {timezone: UTC, lock: {lease_timeout: 10m}}",
	keys:    slices.Concat(policyKeys, []key{apart("lock", like(&defaultsLockShape), "", "Settings of all locks.")}),
	later:   []string{"env"},
	hints: joined(lockHints("write it under defaults: {lock: {%s: ...}}"), map[string]string{
		"locks": `did you mean "lock"?`, "scope": "a scope belongs to a lock of a job",
		"message":       "a message belongs to a lock of a job",
		"hold_at_least": "it belongs to a job", "schedule": "it belongs to a job", "run": "it belongs to a job",
	}),
}

var defaultsLockShape = shape{
	name:    "defaults.lock",
	example: "write it like {lease_timeout: 10m, waiting_timeout: 5m}",
	keys:    lockKeys,
	later:   laterLockFields,
	hints: map[string]string{
		"scope": "a scope belongs to a lock of a job", "message": "a message belongs to a lock of a job",
	},
}

// defaults reads what holds for all jobs.
func (r *reader) defaults(v value, into *Defaults) (policies, lockSettings) {
	all := policies{zone: setting[string]{v: defaultZone, from: builtin}}
	settings := builtinLockSettings()
	if o, ok := r.optional(v, &defaultsShape); ok {
		all = r.policies(o, all)
		if _, ok := r.section(o.get("lock"), &defaultsLockShape, &settings); ok {
			r.checkLock(&settings)
		}
	}
	all.apply(&into.Job, true)
	into.Lock = r.requirement(settings)
	r.adviseClasses(settings)
	defaultsShape.inherited(&all, "from defaults")
	defaultsLockShape.inherited(&settings, "from defaults.lock")
	return all, settings
}

// optional reads a mapping that may be missing.
func (r *reader) optional(v value, s *shape) (object, bool) {
	if !v.exists() {
		return object{}, false
	}
	return r.object(v, s)
}
