package views

import (
	"encoding/json"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
)

// Override is an override that is in force: its own fields, as files of
// overrides have them, and where it comes from.
type Override struct {
	override.Override
	More OverrideMore
}

// OverrideMore is what an override does not say of itself.
type OverrideMore struct {
	Source   string    `json:"source"`              // file or zookeeper
	PostedBy string    `json:"posted_by,omitempty"` // the identity of who has put it into ZooKeeper
	PostedAt time.Time `json:"posted_at,omitzero"`
	Left     int64     `json:"left_ms"`
}

// MarshalJSON writes the fields of both in one object.
func (v Override) MarshalJSON() ([]byte, error) { return Joined(v.Override, v.More) }

// Joined writes the fields of two structs as one object.
func Joined(a, b any) ([]byte, error) {
	one, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	two, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	if len(two) <= len("{}") {
		return one, nil
	}
	return append(append(one[:len(one)-1], ','), two[1:]...), nil
}
