package assignment

import (
	"maps"
	"slices"
)

// An Assignment tells for each lock who holds it: members in lexicographic
// order. A lock without a holder is left out.
type Assignment map[string][]string

// Clone returns a copy that shares nothing.
func (a Assignment) Clone() Assignment {
	b := make(Assignment, len(a))
	for lock, holders := range a {
		b[lock] = slices.Clone(holders)
	}
	return b
}

// Equal reports whether both say the same. The order of holders does not count,
// nor whether a lock without a holder is left out.
func (a Assignment) Equal(b Assignment) bool {
	return maps.EqualFunc(a.normal(), b.normal(), slices.Equal[[]string])
}

// Holds returns the locks of a member, in natural order.
func (a Assignment) Holds(member string) []string {
	var locks []string
	for lock, holders := range a {
		if slices.Contains(holders, member) {
			locks = append(locks, lock)
		}
	}
	slices.SortFunc(locks, Compare)
	return locks
}

// Counts returns how many locks each member holds; one that holds none is left
// out.
func (a Assignment) Counts() map[string]int {
	counts := map[string]int{}
	for _, holders := range a {
		for _, member := range holders {
			counts[member]++
		}
	}
	return counts
}

// normal returns a copy with sorted holders and without the locks that have
// none.
func (a Assignment) normal() Assignment {
	b := make(Assignment, len(a))
	for lock, holders := range a {
		if len(holders) == 0 {
			continue
		}
		holders = slices.Clone(holders)
		slices.Sort(holders)
		b[lock] = holders
	}
	return b
}
