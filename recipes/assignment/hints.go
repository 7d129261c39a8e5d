package assignment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// maxWeight is the largest weight: sums of it are exact enough.
const maxWeight = 1_000_000_000

// Hints are what a group declares beside its locks. The zero value: one holder
// a lock, all members alike.
type Hints struct {
	// Holders is how many members hold each lock at the same time. Fewer do
	// when fewer are live. Defaults to 1.
	Holders int

	// Limit is how many locks a member holds at most, pinned ones included.
	// Locks for which there is no room have fewer holders. Defaults to 0: no
	// limit.
	Limit int

	// Weights is how much a member takes compared with others. Defaults to 1;
	// with 0 a member takes nothing but what is pinned to it, unless all that
	// are live have 0. Read by weighted and rendezvous.
	Weights map[string]float64

	// Pins names for a lock the member that is to hold it while that one is
	// live. Read by all but mod.
	Pins map[string]string

	// Zones says where a member runs. The holders of one lock are placed in
	// distinct zones as long as there are enough: this is more important than an
	// even spread. A member without zone is a zone of its own. Read by all but
	// mod.
	Zones map[string]string
}

// Validate returns what can never work, all at once: less than no holders, a
// negative limit, and weights that are negative, above 1e9 or
// no number.
func (h Hints) Validate() error {
	var errs []error
	if h.Holders < 0 {
		errs = append(errs,
			fmt.Errorf("holders: %d is less than 1; write how many members hold a lock at the same time", h.Holders))
	}
	if h.Limit < 0 {
		errs = append(errs,
			fmt.Errorf("limit: %d is negative; write how many locks a member holds at most, or 0 for no limit", h.Limit))
	}
	for _, member := range slices.SortedFunc(maps.Keys(h.Weights), Compare) {
		if w := h.Weights[member]; w < 0 || w > maxWeight || math.IsNaN(w) {
			errs = append(errs, fmt.Errorf("weights: that of %q is %v; write a number from 0 to %d", member, w, maxWeight))
		}
	}
	return errors.Join(errs...)
}

// weight is that of a member.
func (h Hints) weight(member string) float64 {
	if w, ok := h.Weights[member]; ok {
		return w
	}
	return 1
}

// holders is how many members hold a lock when that many are live.
func (h Hints) holders(live int) int {
	return min(max(h.Holders, 1), live)
}

// limit is how many of the locks a member may hold.
func (h Hints) limit(locks int) int {
	if h.Limit > 0 {
		return min(h.Limit, locks)
	}
	return locks
}

// zone is that of a member; one of its own if none is declared.
func (h Hints) zone(member string) string {
	if zone, ok := h.Zones[member]; ok && zone != "" {
		return "z" + zone
	}
	return "m" + member
}

// free tells that any member may hold any lock and as many as it likes.
func (h Hints) free() bool { return len(h.Pins) == 0 && len(h.Zones) == 0 && h.Limit == 0 }

func (h Hints) clone() Hints {
	h.Weights, h.Pins, h.Zones = maps.Clone(h.Weights), maps.Clone(h.Pins), maps.Clone(h.Zones)
	return h
}
