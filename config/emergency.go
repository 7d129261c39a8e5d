package config

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
)

// Emergency says where the daemon finds operators' overrides beside those in
// ZooKeeper, and what they may do.
type Emergency struct {
	// File is the overrides file, which the daemon watches: see LoadOverrides.
	// Empty: there is none.
	File string

	// MaxDuration is how far ahead an override may end. Defaults to
	// override.DefaultMaxDuration.
	MaxDuration time.Duration

	// AllowBypass lets overrides run work without its lock. Defaults to false.
	AllowBypass bool
}

// Limits are what the overrides of the daemon are checked against.
func (e Emergency) Limits(now time.Time) override.Limits {
	return override.Limits{Now: now, MaxDuration: e.MaxDuration, AllowBypass: e.AllowBypass}
}

// Audit says how the audit trail is kept.
type Audit struct {
	// Keep is how many records ZooKeeper has at most; older ones are removed.
	// Defaults to DefaultAuditKeep.
	Keep int

	// File gets every record as a line of JSON, as long as the daemon runs.
	// Empty: there is none.
	File string
}

// DefaultAuditKeep is how many audit records ZooKeeper has at most.
const DefaultAuditKeep = 10_000

var emergencyShape = shape{
	name:    "emergency",
	example: "write it like {file: overrides.yaml, max_duration: 24h}",
	keys: []key{
		to("file", aFileToCome, "", "The overrides file; it may come and go. Without it, overrides are those in ZooKeeper.",
			func(e *Emergency) *string { return &e.File }),
		to("max_duration", positive, override.DefaultMaxDuration, "How far ahead an override may end.",
			func(e *Emergency) *time.Duration { return &e.MaxDuration }),
		to("allow_bypass", yesOrNo, false,
			"Lets an override run work without its lock.", func(e *Emergency) *bool { return &e.AllowBypass }),
	},
	hints: map[string]string{
		"overrides": "write them into a file of their own, and its name in file", "path": `did you mean "file"?`,
		"bypass": `did you mean "allow_bypass"?`,
		"max":    `did you mean "max_duration"?`, "operators": "write them in zookeeper: {operators: [...]}",
	},
}

var auditShape = shape{
	name:    "audit",
	example: "write it like {keep: 10000, file: audit.jsonl}",
	keys: []key{
		to("keep", number[int](leastAudit, math.MaxInt32, "write how many records are kept, 100 or more"), DefaultAuditKeep,
			"How many records ZooKeeper has at most; older ones are removed.", func(a *Audit) *int { return &a.Keep }),
		to("file", aFileToCome, "",
			"Gets every record as a line of JSON; without it, none does.", func(a *Audit) *string { return &a.File }),
	},
	later: []string{"otlp", "webhook", "rotate"},
	hints: map[string]string{
		"max": `did you mean "keep"?`, "path": `did you mean "file"?`,
		"enabled": "remove it; the audit trail is always written",
	},
}

// leastAudit is how few records still explain what has just happened.
const leastAudit = 100

var aFileToCome = of[string]{kind: aFile, read: (*reader).fileToCome, show: quoted}

// fileToCome reads the name of a file that need not be there yet.
func (r *reader) fileToCome(v value) (string, bool) {
	name, ok := r.text(v, "write the name of a file")
	if !ok {
		return "", false
	}
	path := r.resolve(name)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		r.problem(v, fmt.Sprintf("%q is a directory", path), "name a file, or what may become one")
	}
	return path, true
}
