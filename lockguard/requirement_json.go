package lockguard

import (
	"encoding/json"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// requirementJSON is a Requirement as JSON has it: durations are nanoseconds. Temporal keeps it in the headers of
// activities, in memos of workflows and in their histories. So a name, a unit and the order of the members never
// change; a new member comes with omitempty. A program that does not know a member leaves it out.
type requirementJSON struct {
	AcquireTimeout *time.Duration    `json:"AcquireTimeout"`
	Class          string            `json:"Class,omitempty"`
	CleanupTimeout time.Duration     `json:"CleanupTimeout"`
	Forceful       bool              `json:"Forceful"`
	Hold           string            `json:"Hold"`
	Job            string            `json:"Job"`
	Labels         map[string]string `json:"Labels"`
	LeaseTimeout   time.Duration     `json:"LeaseTimeout"`
	LockDelay      time.Duration     `json:"LockDelay"`
	Message        string            `json:"Message"`
	MinRuntime     time.Duration     `json:"MinRuntime"`
	Mode           priority.Mode     `json:"Mode"`
	NeverPreempts  bool              `json:"NeverPreempts"`
	Owner          string            `json:"Owner"`
	PreemptDelta   int               `json:"PreemptDelta"`
	Priority       priority.Level    `json:"Priority"`
	Scope          string            `json:"Scope"`
	WaitingTimeout *time.Duration    `json:"WaitingTimeout"`
}

// MarshalJSON writes what UnmarshalJSON reads, in the format that Temporal's histories have had from the
// first version on.
func (r Requirement) MarshalJSON() ([]byte, error) {
	return json.Marshal(requirementJSON{
		AcquireTimeout: r.AcquireTimeout, Class: r.Class, CleanupTimeout: r.CleanupTimeout, Forceful: r.Forceful,
		Hold: r.Hold, Job: r.Job, Labels: r.Labels, LeaseTimeout: r.LeaseTimeout, LockDelay: r.LockDelay,
		Message: r.Message, MinRuntime: r.MinRuntime, Mode: r.Mode, NeverPreempts: r.NeverPreempts, Owner: r.Owner,
		PreemptDelta: r.PreemptDelta, Priority: r.Priority, Scope: r.Scope, WaitingTimeout: r.WaitingTimeout,
	})
}

// UnmarshalJSON reads what MarshalJSON has written, also by an older or a newer version.
func (r *Requirement) UnmarshalJSON(data []byte) error {
	var in requirementJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*r = Requirement{
		Scope: in.Scope, Owner: in.Owner, Job: in.Job, Labels: in.Labels, Message: in.Message, Hold: in.Hold,
		Class: in.Class,
		Terms: priority.Terms{
			Priority: in.Priority, Mode: in.Mode, LeaseTimeout: in.LeaseTimeout, CleanupTimeout: in.CleanupTimeout,
			WaitingTimeout: in.WaitingTimeout, AcquireTimeout: in.AcquireTimeout, Forceful: in.Forceful,
			MinRuntime: in.MinRuntime, LockDelay: in.LockDelay, PreemptDelta: in.PreemptDelta, NeverPreempts: in.NeverPreempts,
		},
	}
	return nil
}
