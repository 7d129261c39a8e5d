package override

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A Record is an override as JSON has it, in ZooKeeper and wherever it is shown:
// snake_case, timeouts in milliseconds, Until in UTC, and the emergency priority
// as "emergency".
type Record struct {
	ID             string           `json:"id"`
	Kind           Kind             `json:"kind"`
	Match          MatchRecord      `json:"match"`
	Until          time.Time        `json:"until"`
	By             string           `json:"by"`
	Reason         string           `json:"reason"`
	Priority       *Level           `json:"priority,omitempty"`
	Forceful       *bool            `json:"forceful,omitempty"`
	WaitingTimeout *priority.Millis `json:"waiting_timeout_ms,omitempty"`
	LeaseTimeout   *priority.Millis `json:"lease_timeout_ms,omitempty"`
	CleanupTimeout *priority.Millis `json:"cleanup_timeout_ms,omitempty"`
	AcquireTimeout *priority.Millis `json:"acquire_timeout_ms,omitempty"`
	Token          int64            `json:"token,omitempty"`
}

// A MatchRecord is a Match as JSON has it.
type MatchRecord struct {
	Scope         string            `json:"scope,omitempty"`
	Job           string            `json:"job,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	PriorityBelow *Level            `json:"priority_below,omitempty"`
	PriorityAbove *Level            `json:"priority_above,omitempty"`
}

// Record returns the override as JSON has it.
func (o Override) Record() Record {
	return Record{
		ID: o.ID, Kind: o.Kind, Match: MatchRecord{
			Scope: o.Match.Scope, Job: o.Match.Job, Labels: o.Match.Labels,
			PriorityBelow: (*Level)(o.Match.PriorityBelow), PriorityAbove: (*Level)(o.Match.PriorityAbove),
		},
		Until: o.Until.UTC(), By: o.By, Reason: o.Reason,
		Priority: (*Level)(o.Priority), Forceful: o.Forceful,
		WaitingTimeout: (*priority.Millis)(o.WaitingTimeout), LeaseTimeout: (*priority.Millis)(o.LeaseTimeout),
		CleanupTimeout: (*priority.Millis)(o.CleanupTimeout), AcquireTimeout: (*priority.Millis)(o.AcquireTimeout),
		Token: o.Token,
	}
}

// Override returns the override that the record is of.
func (r Record) Override() Override {
	return Override{
		ID: r.ID, Kind: r.Kind, Match: Match{
			Scope: r.Match.Scope, Job: r.Match.Job, Labels: r.Match.Labels,
			PriorityBelow: (*priority.Level)(r.Match.PriorityBelow), PriorityAbove: (*priority.Level)(r.Match.PriorityAbove),
		},
		Until: r.Until, By: r.By, Reason: r.Reason,
		Priority: (*priority.Level)(r.Priority), Forceful: r.Forceful,
		WaitingTimeout: (*time.Duration)(r.WaitingTimeout), LeaseTimeout: (*time.Duration)(r.LeaseTimeout),
		CleanupTimeout: (*time.Duration)(r.CleanupTimeout), AcquireTimeout: (*time.Duration)(r.AcquireTimeout),
		Token: r.Token,
	}
}

// MarshalJSON writes the Record of the override.
func (o Override) MarshalJSON() ([]byte, error) { return json.Marshal(o.Record()) }

// UnmarshalJSON reads what MarshalJSON writes. A field that it does not know is
// an error: an override that is understood in part may concern more than was
// meant. Whether the override makes sense is for Validate.
func (o *Override) UnmarshalJSON(data []byte) error {
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return errors.New("override: null is none; write {\"id\": ..., \"kind\": ...}")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var r Record
	if err := decoder.Decode(&r); err != nil {
		return fmt.Errorf("override: %w", err)
	}
	if year := r.Until.UTC().Year(); year < 0 || year > 9999 { // which could not be written again
		return fmt.Errorf("override: until is in the year %d; write one from 0 to 9999", year)
	}
	*o = r.Override()
	return nil
}

const emergency = "emergency"

// level writes a priority as people do.
func level(p priority.Level) string {
	if p == priority.Emergency {
		return emergency
	}
	return strconv.Itoa(int(p))
}

// A Level is a priority in JSON: a number, or "emergency".
type Level priority.Level

// MarshalJSON writes a number or "emergency".
func (l Level) MarshalJSON() ([]byte, error) {
	if priority.Level(l) == priority.Emergency {
		return []byte(`"` + emergency + `"`), nil
	}
	return strconv.AppendInt(nil, int64(l), 10), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Level) UnmarshalJSON(data []byte) error {
	if string(data) == `"`+emergency+`"` {
		*l = Level(priority.Emergency)
		return nil
	}
	var n int32
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("%s is no priority; write a number or \"emergency\"", data)
	}
	*l = Level(n)
	return nil
}
