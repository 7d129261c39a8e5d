package assignment

// level moves locks from members above their quota to those below, as few as
// possible, until each has its quota or nothing fits any more.
func (p *placement) level(quota []int) {
	// What was not held before costs nothing to move.
	for _, held := range []bool{false, true} {
		for l := range p.locks {
			for i := 0; i < len(p.holders[l]); i++ { // swap appends: what came is looked at, too
				from := p.holders[l][i]
				if p.load[from] <= quota[from] || p.had(from, l) != held {
					continue
				}
				if to := p.neediest(l, from, quota); to >= 0 {
					p.swap(l, from, to)
					i--
				}
			}
		}
	}
	for from := range p.members {
		for p.load[from] > quota[from] && p.relay(from, quota) {
		}
	}
}

// neediest is who is furthest below its quota of those that may get a lock; -1
// if none is.
func (p *placement) neediest(l, from int, quota []int) int {
	best := -1
	for to := range p.members {
		room := quota[to] - p.load[to]
		if room > 0 && (best < 0 || room > quota[best]-p.load[best]) && p.fits(l, from, to) {
			best = to
		}
	}
	return best
}

// step is one lock that goes from one member to another.
type step struct{ lock, from, to int }

// relay takes one lock from a member although each member below its quota has
// all that it could give: others in between pass on one of theirs. It reports
// false when there is no such chain.
func (p *placement) relay(first int, quota []int) bool {
	via := make([]step, len(p.members))
	seen := make([]bool, len(p.members))
	seen[first] = true
	for queue := []int{first}; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		for l := range p.locks {
			if !p.holds(from, l) {
				continue
			}
			for to := range p.members {
				if seen[to] || !p.fits(l, from, to) {
					continue
				}
				seen[to] = true
				via[to] = step{l, from, to}
				if p.load[to] < quota[to] {
					return p.apply(chain(via, first, to))
				}
				queue = append(queue, to)
			}
		}
	}
	return false
}

// chain returns the steps that lead from first to last.
func chain(via []step, first, last int) []step {
	var steps []step
	for m := last; m != first; m = via[m].from {
		steps = append(steps, via[m])
	}
	return steps
}

// apply does all steps or none. One by one they fit; together they may put a
// lock into too few zones.
func (p *placement) apply(steps []step) bool {
	for i, s := range steps {
		if s.lock < 0 {
			continue
		}
		if !p.fits(s.lock, s.from, s.to) {
			for _, done := range steps[:i] {
				if done.lock >= 0 {
					p.swap(done.lock, done.to, done.from)
				}
			}
			return false
		}
		p.swap(s.lock, s.from, s.to)
	}
	return true
}
