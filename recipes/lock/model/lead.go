package model

// asks reports whether i has to preempt j, and may.
//
//go:norace
func (x *explorer) asks(s *state, i, j int) bool {
	l, bit := &s.locals[i], uint8(1)<<j
	return x.rivals(l, i)&bit != 0 && l.mail&bit == 0
}

//go:norace
func (x *explorer) mayAsk(s *state, i, j int) bool {
	return x.c.Requests[i].Priority > x.c.Requests[j].Priority || s.leaseOver&(1<<j) != 0
}

// toAsk is the next holder that i preempts, -1 if there is none. No holder is
// preempted in vain.
//
//go:norace
func (x *explorer) toAsk(s *state, i int) int {
	l := &s.locals[i]
	next := -1
	for r := x.rivals(l, i); r != 0; r &= r - 1 {
		j := lowest(r)
		switch {
		case !x.asks(s, i, j):
		case !x.mayAsk(s, i, j):
			return -1
		case next < 0:
			next = j
		}
	}
	return next
}

// mayTakeOver reports whether every grace may be over.
//
//go:norace
func (x *explorer) mayTakeOver(s *state, i int) bool {
	l := &s.locals[i]
	rivals := x.rivals(l, i)
	if rivals == 0 || rivals&^l.mail != 0 {
		return false
	}
	if x.c.Requests[i].Forceful {
		return true
	}
	return rivals&^s.leaseOver == 0
}

// lead makes the steps of the first one, which has read the holders.
//
//go:norace
func (x *explorer) lead(s *state, i int) {
	l := &s.locals[i]
	if o := x.pending(s, i); o != opNone {
		x.write(s, i, o)
		return
	}
	t := *s
	n := &t.locals[i]
	if r := x.rivals(l, i); r&l.modes != 0 && x.on(FirstWatchesL) || r&x.holding != 0 && x.on(FirstWatchesLOfHold) {
		h := x.view(s, i)
		n.flags |= watchesL
		if n.pc = leadsReady; (h.v != l.v || h.lives == 0) && x.on(LookAtLWhenArmed) {
			x.again(n, i, wantsG)
		}
		x.give(&t, action{kind: actWatchesL, who: uint8(i)})
		return
	}
	if x.mayTakeOver(s, i) {
		n.pc = leadsReady
	} else {
		x.wait(n, i)
	}
	x.give(&t, action{kind: actWaits, who: uint8(i)})
}
