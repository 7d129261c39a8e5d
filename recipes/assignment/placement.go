package assignment

import "slices"

// placement is an assignment in the making. Locks and members are numbers:
// their index in what was handed in.
type placement struct {
	locks, members []string

	want    int     // holders per lock
	holders [][]int // by lock
	kept    [][]int // by lock: who held it before and is live
	load    []int   // by member
	pin     []int   // by lock: the member it is pinned to, or -1
	pins    []int   // by member: how many locks are pinned to it
	most    int     // how many locks a member may hold
	open    []bool  // by member: may get what is not pinned to it
	zone    []int   // by member
	goal    int     // in how many distinct zones a lock is to be
}

// place begins with what the live members held, each lock once a member, and
// takes away what is too much. closed are members that get nothing but pins.
func place(locks, live []string, previous Assignment, hints Hints, closed func(member string) bool) *placement {
	p := &placement{
		locks:   locks,
		members: live,
		holders: make([][]int, len(locks)),
		kept:    make([][]int, len(locks)),
		load:    make([]int, len(live)),
		pin:     make([]int, len(locks)),
		pins:    make([]int, len(live)),
		open:    make([]bool, len(live)),
		zone:    make([]int, len(live)),
	}
	index := make(map[string]int, len(live))
	zones := map[string]int{}
	takers := 0
	for i, member := range live {
		index[member] = i
		name := hints.zone(member)
		if _, ok := zones[name]; !ok {
			zones[name] = len(zones)
		}
		p.zone[i] = zones[name]
		if !closed(member) {
			p.open[i] = true
			takers++
		}
	}
	if takers == 0 { // all are closed, so none is
		takers = len(live)
		for i := range p.open {
			p.open[i] = true
		}
	}
	p.want = hints.holders(takers)
	p.goal = min(p.want, len(zones))
	p.most = hints.limit(len(locks))

	for l, lock := range locks {
		p.pin[l] = -1
		if m, ok := index[hints.Pins[lock]]; ok && p.pins[m] < p.most {
			p.pin[l] = m
			p.pins[m]++
		}
		for _, member := range previous[lock] {
			if m, ok := index[member]; ok && !p.holds(m, l) {
				p.add(l, m)
			}
		}
		p.kept[l] = slices.Clone(p.holders[l])
	}
	for l := range locks {
		if m := p.pin[l]; m >= 0 && !p.holds(m, l) {
			p.add(l, m)
		}
		for len(p.holders[l]) > p.want {
			p.remove(l, p.surplus(l))
		}
	}
	p.cut()
	return p
}

// cut takes from members what they have above the limit, first what they did
// not have before.
func (p *placement) cut() {
	for _, had := range []bool{false, true} {
		for l := range p.locks {
			for _, m := range slices.Clone(p.holders[l]) {
				if p.load[m] > p.most && p.pin[l] != m && p.had(m, l) == had {
					p.remove(l, m)
				}
			}
		}
	}
}

func (p *placement) holds(m, l int) bool { return slices.Contains(p.holders[l], m) }

func (p *placement) had(m, l int) bool { return slices.Contains(p.kept[l], m) }

func (p *placement) add(l, m int) {
	p.holders[l] = append(p.holders[l], m)
	p.load[m]++
}

func (p *placement) remove(l, m int) {
	i := slices.Index(p.holders[l], m)
	p.holders[l] = slices.Delete(p.holders[l], i, i+1)
	p.load[m]--
}

func (p *placement) swap(l, from, to int) {
	p.remove(l, from)
	p.add(l, to)
}

// surplus is the holder that a lock with too many of them loses: none that it
// is pinned to; one that is closed, or shares its zone, or has most locks.
func (p *placement) surplus(l int) int {
	worst := -1
	rank := func(m int) int {
		r := p.load[m]
		if p.clashes(l, m) {
			r += len(p.locks)
		}
		if !p.open[m] {
			r += 3 * len(p.locks)
		}
		return r
	}
	for _, m := range p.holders[l] {
		if m != p.pin[l] && (worst < 0 || rank(m) > rank(worst)) {
			worst = m
		}
	}
	return worst
}

// clashes tells whether another holder of the lock is in the member's zone.
func (p *placement) clashes(l, m int) bool {
	for _, other := range p.holders[l] {
		if other != m && p.zone[other] == p.zone[m] {
			return true
		}
	}
	return false
}

// distinct is in how many zones a lock is held.
func (p *placement) distinct(l int) int {
	n := 0
	for i, m := range p.holders[l] {
		first := true
		for _, other := range p.holders[l][:i] {
			first = first && p.zone[other] != p.zone[m]
		}
		if first {
			n++
		}
	}
	return n
}

// fits tells whether a lock may go from one member to another: it is not
// pinned, that one does not have it, and it is not in too few zones because of
// it.
func (p *placement) fits(l, from, to int) bool {
	if p.pin[l] == from || !p.open[to] || p.holds(to, l) {
		return false
	}
	// What leaves a zone empty must go to one that is new, unless there are
	// enough without.
	return p.goal < 2 || p.zone[from] == p.zone[to] || p.clashes(l, from) || !p.taken(l, from, to) ||
		p.distinct(l) > p.goal
}

// taken tells whether a holder other than from is in the zone of to.
func (p *placement) taken(l, from, to int) bool {
	for _, other := range p.holders[l] {
		if other != from && p.zone[other] == p.zone[to] {
			return true
		}
	}
	return false
}

// fill gives every lock that has too few holders to members in new zones while
// there are too few of those, then to the ones with most room. What no member
// may take any more is left, except that with extra of more than 0 so many are
// given beyond the limit, for level to move on.
func (p *placement) fill(room func(m int) int, extra int) {
	for l := range p.locks {
		for len(p.holders[l]) < p.want {
			m := p.taker(l, -1, p.most, room)
			if m < 0 && extra > 0 {
				extra--
				m = p.taker(l, -1, len(p.locks)+1, room)
			}
			if m < 0 {
				break
			}
			p.add(l, m)
		}
	}
}

// taker is who gets a lock, from which member or from none (-1); -1 if all that
// may have it have most.
func (p *placement) taker(l, from, most int, room func(m int) int) int {
	best, bestNew := -1, false
	fewZones := p.goal > 1 && p.distinct(l) < p.goal
	for m := range p.members {
		if !p.open[m] || p.load[m] >= most || p.holds(m, l) {
			continue
		}
		isNew := fewZones && !p.taken(l, from, m)
		if best < 0 || isNew && !bestNew || isNew == bestNew && room(m) > room(best) {
			best, bestNew = m, isNew
		}
	}
	return best
}

// part moves holders that share a zone while there are zones without one.
func (p *placement) part(room func(m int) int) {
	if p.goal < 2 {
		return
	}
	for l := range p.locks {
		for p.distinct(l) < p.goal {
			from := p.sharer(l)
			if from < 0 {
				break
			}
			to := p.taker(l, from, p.most, room)
			if to < 0 || p.taken(l, from, to) {
				break // members in other zones are closed
			}
			p.swap(l, from, to)
		}
	}
}

// sharer is the holder with most locks of those that share a zone; -1 if none
// may go.
func (p *placement) sharer(l int) int {
	most := -1
	for _, m := range p.holders[l] {
		if m != p.pin[l] && p.clashes(l, m) && (most < 0 || p.load[m] > p.load[most]) {
			most = m
		}
	}
	return most
}

// assignment returns the result.
func (p *placement) assignment() Assignment {
	a := make(Assignment, len(p.locks))
	for l, holders := range p.holders {
		for _, m := range holders {
			a[p.locks[l]] = append(a[p.locks[l]], p.members[m])
		}
	}
	return a
}
