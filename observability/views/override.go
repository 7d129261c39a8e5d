package views

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/override"
)

// Override is an override that is in force: its own fields, as files of
// overrides have them, where it comes from and whom it keeps out.
type Override struct {
	override.Record
	Source   string    `json:"source"`              // file or zookeeper
	PostedBy string    `json:"posted_by,omitempty"` // the identity of who has put it into ZooKeeper
	PostedAt time.Time `json:"posted_at,omitzero"`
	Left     int64     `json:"left_ms"`

	// whom it keeps from running or from a lock now; those of older versions that are frozen do not show it
	KeepsOut []KeptOut `json:"keeps_out"`
}

// KeptOut is a request or a job that an override keeps out now.
type KeptOut struct {
	// frozen; waiting: for a lock that an operator keeps; paused: a job whose ticks are skipped
	State string     `json:"state"`
	Scope string     `json:"scope,omitempty"`
	Owner string     `json:"owner"` // the job, or who else wants the lock
	Host  string     `json:"host,omitempty"`
	PID   int        `json:"pid,omitempty"`
	Since *time.Time `json:"since"` // null: for a job
}

// KeptOutBy returns whom an override keeps out: by a freeze, by a hold on a lock,
// and by a pause those of the jobs that it concerns.
func KeptOutBy(o override.Override, requests []live.Request, jobs []JobLabels) []KeptOut {
	kept := []KeptOut{}
	if o.Kind == override.Pause {
		for _, j := range jobs {
			if (override.Set{o}).Paused(j.Name, j.Labels) != nil {
				kept = append(kept, KeptOut{State: "paused", Owner: j.Name})
			}
		}
		return kept
	}
	held := map[string]bool{} // IDs of what an operator holds by it
	if o.Kind == override.Hold || o.Kind == override.PreemptNow {
		for _, r := range requests {
			if r.State == live.Holding && r.Override != nil && r.Override.ID == o.ID {
				held[r.ID] = true
			}
		}
	}
	for _, r := range requests {
		frozen := r.State == live.Frozen && r.Override != nil && r.Override.ID == o.ID
		behind := r.State == live.Waiting && slices.ContainsFunc(r.For, func(b live.Blocker) bool { return held[b.ID] })
		if frozen || behind {
			kept = append(kept,
				KeptOut{State: r.State, Scope: r.Scope, Owner: r.Owner, Host: r.Host, PID: r.PID, Since: live.Optional(r.Since)})
		}
	}
	return kept
}

// JobLabels is what pauses find a job by.
type JobLabels struct {
	Name   string
	Labels map[string]string
}

// String names it: "importer-19 out of tenant/5/billing since 12:00".
func (k KeptOut) String() string {
	text := k.Owner
	if k.Host != "" {
		text += " on " + k.Host
	}
	switch k.State {
	case live.Frozen:
		return text + " frozen out of " + k.Scope
	case live.Waiting:
		return text + " waiting for " + k.Scope
	}
	return text + " " + k.State
}
