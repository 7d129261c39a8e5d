package override

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// MarshalJSON writes the override as it is kept in ZooKeeper and shown by
// -o json: snake_case, timeouts in milliseconds, Until in UTC, and the emergency
// priority as "emergency".
func (o Override) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{
		ID: o.ID, Kind: o.Kind, Match: wireMatch{
			Scope: o.Match.Scope, Job: o.Match.Job, Labels: o.Match.Labels,
			PriorityBelow: (*wireLevel)(o.Match.PriorityBelow), PriorityAbove: (*wireLevel)(o.Match.PriorityAbove),
		},
		Until: o.Until.UTC(), By: o.By, Reason: o.Reason,
		Priority: (*wireLevel)(o.Priority), Forceful: o.Forceful,
		WaitingTimeout: (*wireDuration)(o.WaitingTimeout), LeaseTimeout: (*wireDuration)(o.LeaseTimeout),
		CleanupTimeout: (*wireDuration)(o.CleanupTimeout), AcquireTimeout: (*wireDuration)(o.AcquireTimeout),
		Token: o.Token,
	})
}

// UnmarshalJSON reads what MarshalJSON writes. A field that it does not know is
// an error: an override that is understood in part may concern more than was
// meant. Whether the override makes sense is for Validate.
func (o *Override) UnmarshalJSON(data []byte) error {
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return errors.New("override: null is none; write {\"id\": ..., \"kind\": ...}")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var w wire
	if err := decoder.Decode(&w); err != nil {
		return fmt.Errorf("override: %w", err)
	}
	if year := w.Until.UTC().Year(); year < 0 || year > 9999 { // which could not be written again
		return fmt.Errorf("override: until is in the year %d; write one from 0 to 9999", year)
	}
	*o = Override{
		ID: w.ID, Kind: w.Kind, Match: Match{
			Scope: w.Match.Scope, Job: w.Match.Job, Labels: w.Match.Labels,
			PriorityBelow: (*priority.Level)(w.Match.PriorityBelow), PriorityAbove: (*priority.Level)(w.Match.PriorityAbove),
		},
		Until: w.Until, By: w.By, Reason: w.Reason,
		Priority: (*priority.Level)(w.Priority), Forceful: w.Forceful,
		WaitingTimeout: (*time.Duration)(w.WaitingTimeout), LeaseTimeout: (*time.Duration)(w.LeaseTimeout),
		CleanupTimeout: (*time.Duration)(w.CleanupTimeout), AcquireTimeout: (*time.Duration)(w.AcquireTimeout),
		Token: w.Token,
	}
	return nil
}

// A wire is an Override as JSON has it.
type wire struct {
	ID             string        `json:"id"`
	Kind           Kind          `json:"kind"`
	Match          wireMatch     `json:"match"`
	Until          time.Time     `json:"until"`
	By             string        `json:"by"`
	Reason         string        `json:"reason"`
	Priority       *wireLevel    `json:"priority,omitempty"`
	Forceful       *bool         `json:"forceful,omitempty"`
	WaitingTimeout *wireDuration `json:"waiting_timeout_ms,omitempty"`
	LeaseTimeout   *wireDuration `json:"lease_timeout_ms,omitempty"`
	CleanupTimeout *wireDuration `json:"cleanup_timeout_ms,omitempty"`
	AcquireTimeout *wireDuration `json:"acquire_timeout_ms,omitempty"`
	Token          int64         `json:"token,omitempty"`
}

type wireMatch struct {
	Scope         string            `json:"scope,omitempty"`
	Job           string            `json:"job,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	PriorityBelow *wireLevel        `json:"priority_below,omitempty"`
	PriorityAbove *wireLevel        `json:"priority_above,omitempty"`
}

const emergency = "emergency"

// level writes a priority as people do.
func level(p priority.Level) string {
	if p == priority.Emergency {
		return emergency
	}
	return strconv.Itoa(int(p))
}

type wireLevel priority.Level

func (l wireLevel) MarshalJSON() ([]byte, error) {
	if priority.Level(l) == priority.Emergency {
		return []byte(`"` + emergency + `"`), nil
	}
	return strconv.AppendInt(nil, int64(l), 10), nil
}

func (l *wireLevel) UnmarshalJSON(data []byte) error {
	if string(data) == `"`+emergency+`"` {
		*l = wireLevel(priority.Emergency)
		return nil
	}
	var n int32
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("%s is no priority; write a number or \"emergency\"", data)
	}
	*l = wireLevel(n)
	return nil
}

// A wireDuration is a duration in whole milliseconds.
type wireDuration time.Duration

func (d wireDuration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

func (d *wireDuration) UnmarshalJSON(data []byte) error {
	var ms int64
	if err := json.Unmarshal(data, &ms); err != nil || ms > math.MaxInt64/int64(time.Millisecond) || ms < 0 {
		return fmt.Errorf("%s is no timeout; write how many milliseconds", data)
	}
	*d = wireDuration(time.Duration(ms) * time.Millisecond)
	return nil
}
