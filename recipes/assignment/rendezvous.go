package assignment

import "math"

// Rendezvous gives each lock to the members with the highest score, a hash of
// both names (highest random weight hashing): who holds a lock follows from the
// names of those that are live, without knowing what was before.
//
// When a member leaves, only its locks move; when one joins, locks move to it
// alone, its share by weight on average. The spread is that of chance: with
// 1,000 locks and 10 members, about 100 give or take 20.
//
// The score is -weight/ln(u), u being the hash as a number between 0 and 1. The
// hash is FNV-1a (64 bits) of lock, a zero byte and member, put through
// MurmurHash3's 64-bit finaliser; it never changes between versions. Pins and
// zones go before the score; with zones, and with a limit,
// other locks may move, too.
type Rendezvous struct{}

// Assign implements Strategy.
func (Rendezvous) Assign(locks, live []string, _ Assignment, hints Hints) (Assignment, error) {
	if len(live) == 0 {
		return Assignment{}, nil
	}
	p := place(locks, live, nil, hints, func(member string) bool { return hints.weight(member) == 0 })
	weights := make([]float64, len(live))
	for m, member := range live {
		weights[m] = 1
		if w := hints.weight(member); w > 0 {
			weights[m] = w
		}
	}
	score := make([]float64, len(live))
	for l, lock := range locks {
		h := fnv1a(fnv1a(fnvOffset, lock), "\x00")
		for m, member := range live {
			// 53 bits are what a float64 takes; never 0 and never 1.
			u := (float64(mix(fnv1a(h, member))>>11) + 0.5) / (1 << 53)
			score[m] = -weights[m] / math.Log(u)
		}
		for len(p.holders[l]) < p.want {
			m := p.best(l, score)
			if m < 0 {
				break
			}
			p.add(l, m)
		}
	}
	return p.assignment(), nil
}

// best is the member with the highest score that may get a lock, in a new zone
// if there are too few; by name if scores are equal; -1 if all have their fill.
func (p *placement) best(l int, score []float64) int {
	order := func(m int) (isNew bool, s float64) {
		return p.goal > 1 && p.distinct(l) < p.goal && !p.taken(l, -1, m), score[m]
	}
	best := -1
	for m := range p.members {
		if !p.open[m] || p.load[m] >= p.most || p.holds(m, l) {
			continue
		}
		if best < 0 {
			best = m
			continue
		}
		isNew, s := order(m)
		bestNew, bestScore := order(best)
		if isNew && !bestNew || isNew == bestNew && s > bestScore {
			best = m
		}
	}
	return best
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// fnv1a goes on with a hash: that of a prefix is computed once.
func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// mix spreads every bit over all: names that differ in their last letter are
// otherwise close.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
