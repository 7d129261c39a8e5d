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
	if p.want == 1 {
		return // whoever is above its quota gives to one below: nothing is passed on
	}
	for p.cost() > p.bound(share) {
		steps := p.saving(share)
		if steps == nil || !p.apply(steps) {
			return
		}
	}
}

// cost is how often somebody gets a lock.
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

// bound is a cost that cannot be undercut: nobody keeps more than its share
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

// saving returns steps around in a circle that cost less than nothing; nil if
// there are none. A step without lock (-1) hands over the odd one: nothing.
func (p *placement) saving(share []float64) []step {
	const none = 2 // no step costs more than 1
	n := len(p.members)
	lock := make([]int, n*n)
	price := make([]int, n*n)
	for i := range price {
		price[i], lock[i] = none, -1
	}
	for l := range p.locks {
		for _, from := range p.holders[l] {
			for to := range n {
				c := 0
				if !p.had(to, l) {
					c++
				}
				if !p.had(from, l) {
					c--
				}
				if i := from*n + to; c < price[i] && p.fits(l, from, to) {
					price[i], lock[i] = c, l
				}
			}
		}
	}
	for x := range n {
		for y := range n {
			odd := x != y && share[x] == share[y] && p.load[x] < p.load[y]
			if i := x*n + y; odd && price[i] > 0 {
				price[i], lock[i] = 0, -1
			}
		}
	}

	// Bellman and Ford: if prices still fall after n turns, there is a circle.
	dist := make([]int, n)
	via := make([]step, n)
	last := -1
	for range n {
		last = -1
		for from := range n {
			for to := range n {
				i := from*n + to
				if price[i] < none && dist[from]+price[i] < dist[to] {
					dist[to] = dist[from] + price[i]
					via[to] = step{lock[i], from, to}
					last = to
				}
			}
		}
		if last < 0 {
			return nil
		}
	}
	for range n { // back into the circle
		last = via[last].from
	}
	return append(chain(via, last, via[last].from), via[last])
}
