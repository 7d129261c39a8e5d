package assignment

// Balanced moves as few locks as possible and lets no member hold two more than
// another. It is the default.
//
// When a member leaves, only its locks move. When one joins N others that were
// balanced, it gets ⌊locks·holders/(N+1)⌋ locks, and nothing else moves.
//
// With several holders a lock no member has it twice, the spread is the same,
// and no assignment with that spread needs fewer moves. A join costs what is
// said above; on a leave a few more than the locks of the departed may move,
// when the others already hold what they would have to take.
//
// Pins and zones go before: what is pinned counts as held, the others share
// the rest, and with zones the spread is as even and the moves are as few as
// they allow without a promise. It does not read weights.
type Balanced struct{}

// Assign implements Strategy.
func (Balanced) Assign(locks, live []string, previous Assignment, hints Hints) (Assignment, error) {
	hints.Weights = nil
	return spread(locks, live, previous, hints), nil
}

// spread gives every member its share by weight, moving as little as possible.
func spread(locks, live []string, previous Assignment, hints Hints) Assignment {
	if len(live) == 0 {
		return Assignment{}
	}
	p := place(locks, live, previous, hints, func(member string) bool { return hints.weight(member) == 0 })

	total := p.want * len(locks)
	weights := make([]float64, len(live))
	limits := make([]bounds, len(live))
	equal := true // all that are open have weight 0
	for m, member := range live {
		limits[m] = bounds{least: p.pins[m], most: p.most}
		if p.open[m] {
			weights[m] = hints.weight(member)
			equal = equal && weights[m] == 0
		} else {
			limits[m].most = p.pins[m]
		}
	}
	if equal {
		for m := range weights {
			weights[m] = 1
		}
	}
	share := shares(total, weights, limits)

	for before := p.assignment(); ; {
		quota := round(total, share, p.load)
		room := func(m int) int { return quota[m] - p.load[m] }
		p.fill(room, sum(quota)-sum(p.load))
		p.part(room)
		p.level(quota)
		p.cut()
		p.thrift(share)
		after := p.assignment()
		if hints.free() || after.Equal(before) {
			return after
		}
		// Pins and zones may keep a member from its quota; then another one
		// may get the odd lock.
		before = after
	}
}

func sum(numbers []int) int {
	n := 0
	for _, i := range numbers {
		n += i
	}
	return n
}
