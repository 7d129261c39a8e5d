package assignment

import "math"

// thrift undoes moves that were not needed, without changing how many locks
// each member has, except between members with the same share, of which any
// may have the odd one.
//
// That is a minimum cost flow: a lock with a member that did not have it
// before costs one, and rounds of members that pass locks on are looked for
// which cost less than nothing. When there are none, fewer moves are
// impossible.
func (p *placement) thrift(share []float64) {
	cost, bound := p.cost(), p.bound(share)
	if cost <= bound {
		return
	}
	m := newMarket(p, share)
	for fresh := true; cost > bound; {
		steps, gain := m.round()
		switch {
		case steps != nil && p.apply(steps):
			cost -= gain
			m.update(steps)
			fresh = false
		case fresh:
			return
		default: // zones make prices between others change, too
			m.update(nil)
			fresh = true
		}
	}
}

// cost is how often a member gets a lock.
func (p *placement) cost() int {
	n := 0
	for l := range p.locks {
		for _, m := range p.holders[l] {
			if !p.had(m, l) {
				n++
			}
		}
	}
	return n
}

// bound is a cost that cannot be undercut: no member keeps more than its share
// rounded down, and as many as there are odd ones keep one more.
func (p *placement) bound(share []float64) int {
	before := make([]int, len(p.members))
	for l := range p.locks {
		for _, m := range p.kept[l] {
			before[m]++
		}
	}
	n := sum(p.load)
	odd, more := n, 0
	for m, s := range share {
		low := int(math.Floor(s + whole))
		odd -= low
		n -= min(before[m], low)
		if before[m] > low {
			more++
		}
	}
	return n - max(0, min(odd, more))
}

// A market knows what it costs to pass one lock from one member to another:
// 1 if that one did not have it before, less 1 if the first did not.
type market struct {
	*placement

	share []float64
	lock  [][]int // by from and to: the cheapest; -1: the odd one, for nothing
	price [][]int
}

// none is the price where nothing can be passed on: more than any.
const none = 2

func newMarket(p *placement, share []float64) *market {
	m := &market{placement: p, share: share, lock: make([][]int, len(p.members)), price: make([][]int, len(p.members))}
	for i := range p.members {
		m.lock[i], m.price[i] = make([]int, len(p.members)), make([]int, len(p.members))
	}
	m.update(nil)
	return m
}

// update finds the prices between the members of steps and all others; all
// prices if there are no steps.
func (m *market) update(steps []step) {
	stale := make([]bool, len(m.members))
	for i := range stale {
		stale[i] = steps == nil
	}
	for _, s := range steps {
		stale[s.from], stale[s.to] = true, true
	}
	var some []int
	for x := range m.members {
		if stale[x] {
			some = append(some, x)
		}
		for y := range m.members {
			if !stale[x] && !stale[y] {
				continue
			}
			m.price[x][y], m.lock[x][y] = none, -1
			if x != y && m.share[x] == m.share[y] && m.load[x] < m.load[y] {
				m.price[x][y] = 0 // x keeps the odd one and y gives one away
			}
		}
	}
	all := make([]int, len(m.members))
	for i := range all {
		all[i] = i
	}
	for l := range m.locks {
		for _, from := range m.holders[l] {
			receivers := some
			if stale[from] {
				receivers = all
			}
			for _, to := range receivers {
				c := 0
				if !m.had(to, l) {
					c++
				}
				if !m.had(from, l) {
					c--
				}
				if c < m.price[from][to] && m.fits(l, from, to) {
					m.price[from][to], m.lock[from][to] = c, l
				}
			}
		}
	}
}

// round returns steps around in a circle that cost less than nothing, and how
// much less; nil if there are none.
//
// It is the method of Bellman and Ford: as long as prices fall, follow the
// predecessors through which they fell; a member that is behind itself is in
// such a circle.
func (m *market) round() (steps []step, gain int) {
	n := len(m.members)
	dist := make([]int, n)
	via := make([]step, n)
	for i := range via {
		via[i].from = -1
	}
	for range n + 1 {
		fell := false
		for from := range n {
			for to, price := range m.price[from] {
				if price < none && dist[from]+price < dist[to] {
					dist[to] = dist[from] + price
					via[to] = step{m.lock[from][to], from, to}
					fell = true
				}
			}
		}
		if !fell {
			return nil, 0
		}
		if at := circle(via); at >= 0 {
			steps = append(chain(via, at, via[at].from), via[at])
			for _, s := range steps {
				gain -= m.price[s.from][s.to]
			}
			return steps, gain
		}
	}
	return nil, 0 // not reached: by then there is a circle
}

// circle returns a member that stands behind itself; -1 if none does.
func circle(via []step) int {
	seen := make([]int, len(via)) // by which walk, counted from 1
	for first := range via {
		at := first
		for at >= 0 && seen[at] == 0 {
			seen[at] = first + 1
			at = via[at].from
		}
		if at >= 0 && seen[at] == first+1 {
			return at
		}
	}
	return -1
}
