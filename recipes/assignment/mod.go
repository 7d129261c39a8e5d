package assignment

import "slices"

// Mod gives lock i to member i modulo the number of members, and to the ones
// after it if a lock has several holders: locks and members in lexicographic
// order. It reads no other hint but Limit: a
// member that has its fill is passed over.
//
// It is what Apache Helix' recipe of a lock manager prints, here to compare
// with: it spreads evenly, but nearly every lock moves when a member comes or
// goes.
type Mod struct{}

// Assign implements Strategy.
func (Mod) Assign(locks, live []string, _ Assignment, hints Hints) (Assignment, error) {
	if len(live) == 0 {
		return Assignment{}, nil
	}
	locks, live = slices.Sorted(slices.Values(locks)), slices.Sorted(slices.Values(live))
	next := make(Assignment, len(locks))
	room := make([]int, len(live))
	for m := range room {
		room[m] = hints.limit(len(locks))
	}
	for i, lock := range locks {
		for j := range hints.holders(len(live)) {
			if m := (i + j) % len(live); room[m] > 0 {
				next[lock] = append(next[lock], live[m])
				room[m]--
			}
		}
	}
	return next, nil
}
