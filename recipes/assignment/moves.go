package assignment

import (
	"cmp"
	"maps"
	"slices"
)

// A Move is one lock that changes hands.
type Move struct {
	Lock string
	From string // who gives it up; "" if it had no holder
	To   string // who gets it; "" if it gets no holder
}

func (m Move) String() string {
	return m.Lock + ": " + cmp.Or(m.From, "none") + " -> " + cmp.Or(m.To, "none")
}

// Moves returns what changes from one assignment to the next: by lock, from
// and to in natural order. A lock with several holders may be moved several
// times, never twice from or to the same member.
func Moves(previous, next Assignment) []Move {
	return changes(previous, next, nil)
}

// LimitMoves holds back voluntary moves beyond n: those from a member that is
// live to another one. Taken are the first in natural order. A move away from a
// member that is not live, a lock that had no holder and one that gets none any
// more are not voluntary and never held back; nor is one that makes room for
// them when hints.Limit is reached. n of 0 or less: no limit.
//
// It returns what to apply, which is valid if next is, and what was held back.
// The next round, with what was applied as previous, goes on.
func LimitMoves(previous, next Assignment, live []string, hints Hints, n int) (limited Assignment, held []Move) {
	limited = next.normal()
	if n <= 0 {
		return limited, nil
	}
	alive := set(live)
	apply := func(move Move, from, to string) {
		holders := limited[move.Lock]
		holders[slices.Index(holders, from)] = to
	}
	for _, move := range changes(previous, next, alive) {
		if move.To == "" || !alive[move.From] {
			continue
		}
		if n > 0 {
			n--
			continue
		}
		held = append(held, move)
		apply(move, move.To, move.From)
	}
	for counts := limited.Counts(); hints.Limit > 0; {
		full := slices.IndexFunc(held, func(move Move) bool { return counts[move.From] > hints.Limit })
		if full < 0 {
			break
		}
		move := held[full]
		apply(move, move.From, move.To)
		counts[move.From]--
		counts[move.To]++
		held = slices.Delete(held, full, full+1)
	}
	return limited.normal(), held
}

// changes pairs who gives up with who gets. When it is known who is alive, the
// others are replaced first.
func changes(previous, next Assignment, alive map[string]bool) []Move {
	var moves []Move
	locks := slices.Concat(slices.Collect(maps.Keys(previous)), slices.Collect(maps.Keys(next)))
	slices.SortFunc(locks, Compare)
	for _, lock := range slices.Compact(locks) {
		from, to := without(previous[lock], next[lock]), without(next[lock], previous[lock])
		slices.SortStableFunc(from, func(a, b string) int {
			switch {
			case alive[a] == alive[b]:
				return 0
			case alive[a]:
				return 1
			}
			return -1
		})
		first := len(moves)
		for i := range max(len(from), len(to)) {
			move := Move{Lock: lock}
			if i < len(from) {
				move.From = from[i]
			}
			if i < len(to) {
				move.To = to[i]
			}
			moves = append(moves, move)
		}
		slices.SortFunc(moves[first:], func(a, b Move) int {
			return cmp.Or(Compare(a.From, b.From), Compare(a.To, b.To))
		})
	}
	return moves
}

// without returns what is in a and not in b, in natural order, each once.
func without(a, b []string) []string {
	var only []string
	for _, name := range a {
		if !slices.Contains(b, name) {
			only = append(only, name)
		}
	}
	slices.SortFunc(only, Compare)
	return slices.Compact(only)
}
