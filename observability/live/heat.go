package live

import (
	"encoding/json"
	"time"
)

// Heat is how much time requests have spent waiting, by lock and slice of time:
// two that wait for a minute have lost two.
type Heat struct {
	From  time.Time
	Slice time.Duration
	Known time.Time // nothing is known before, but of those who still waited then; zero: nothing at all
	Rows  []HeatRow // the most first; the last one may be all others together, without a scope
}

// A HeatRow is one lock.
type HeatRow struct {
	Scope  string          // "" for the others
	Waited []time.Duration // in each slice
}

// Total returns the time waited in all slices.
func (r HeatRow) Total() time.Duration {
	var sum time.Duration
	for _, d := range r.Waited {
		sum += d
	}
	return sum
}

type heatJSON struct {
	From  time.Time     `json:"from"`
	Slice int64         `json:"slice_ms"`
	Known time.Time     `json:"known,omitzero"`
	Rows  []heatRowJSON `json:"rows"`
}

type heatRowJSON struct {
	Scope  string  `json:"scope"`
	Waited []int64 `json:"waited_ms"`
}

// MarshalJSON writes times in milliseconds.
func (h Heat) MarshalJSON() ([]byte, error) {
	out := heatJSON{From: h.From, Known: h.Known, Slice: h.Slice.Milliseconds(), Rows: make([]heatRowJSON, len(h.Rows))}
	for i, r := range h.Rows {
		row := heatRowJSON{Scope: r.Scope, Waited: make([]int64, len(r.Waited))}
		for j, d := range r.Waited {
			row.Waited[j] = d.Milliseconds()
		}
		out.Rows[i] = row
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Heat) UnmarshalJSON(data []byte) error {
	var in heatJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*h = Heat{From: in.From, Known: in.Known, Slice: time.Duration(in.Slice) * time.Millisecond, Rows: make([]HeatRow, len(in.Rows))}
	for i, r := range in.Rows {
		row := HeatRow{Scope: r.Scope, Waited: make([]time.Duration, len(r.Waited))}
		for j, ms := range r.Waited {
			row.Waited[j] = time.Duration(ms) * time.Millisecond
		}
		h.Rows[i] = row
	}
	return nil
}
