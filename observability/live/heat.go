package live

import (
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Heat is how much time requests have spent waiting, by lock and slice of time:
// two that wait for a minute have lost two.
type Heat struct {
	From  time.Time       `json:"from"`
	Slice priority.Millis `json:"slice_ms"`
	Known time.Time       `json:"known,omitzero"` // nothing is known before, but of those who still waited then; zero: nothing at all
	Rows  []HeatRow       `json:"rows"`           // the most first; the last one may be all others together, without a scope
}

// A HeatRow is one lock.
type HeatRow struct {
	Scope  string            `json:"scope"`     // "" for the others
	Waited []priority.Millis `json:"waited_ms"` // in each slice
}

// Total returns the time waited in all slices.
func (r HeatRow) Total() time.Duration {
	var sum priority.Millis
	for _, d := range r.Waited {
		sum += d
	}
	return time.Duration(sum)
}
