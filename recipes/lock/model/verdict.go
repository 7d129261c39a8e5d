package model

import "fmt"

// believes reports whether a request takes itself for a holder.
//
//go:norace
func (l *local) believes() bool {
	return l.late == 0 && l.pc >= holdsNew && l.pc <= shares
}

// unsafe says which promise a state breaks.
//
//go:norace
//nolint:cyclop // one case for each promise
func (x *explorer) unsafe(s *state) string {
	h := s.head()
	holders := h.list() & h.g
	if holders&(holders-1) != 0 {
		for i := range x.c.Requests {
			if bit := uint8(1) << i; holders&bit != 0 && !h.nodes[i].shared() && holders&^bit&^x.companions(s, i) != 0 {
				return fmt.Sprintf("%s holds the lock alone, and others hold it, too", requestName(i))
			}
		}
	}
	for i := range x.c.Requests {
		n, l, bit := &h.nodes[i], &s.locals[i], uint8(1)<<i
		switch {
		case n.there() && n.granted() && h.g&bit == 0:
			return requestName(i) + " was granted, and G forgot it"
		case n.there() && h.g&bit != 0 && n.token != s.tokens[i]:
			return requestName(i) + "'s node shows another token than that of its grant"
		case n.there() && l.pc == holds && l.modes&bit != 0 && !n.shared():
			return requestName(i) + " shares the lock, and its node has forgotten that"
		case !l.believes():
		case s.evicted&bit == 0 && (!n.there() || h.g&bit == 0) && !x.left(s, i):
			return requestName(i) + " believes that it holds, and does not"
		case l.token != 0 && l.token != s.tokens[i]:
			return requestName(i) + " takes another grant's token for its own"
		}
	}
	return ""
}

// companions are those who hold, or held, by the token of i.
//
//go:norace
func (x *explorer) companions(s *state, i int) (set uint8) {
	for j := range x.c.Requests {
		if bit := uint8(1) << j; x.mates[i]&bit != 0 && s.tokens[j] == s.tokens[i] {
			set |= bit
		}
	}
	return set
}

// left reports whether i is past its own release.
//
//go:norace
func (x *explorer) left(s *state, i int) bool {
	return s.locals[i].pc == unsureLeave
}

// stuck says who waits in vain in a state in which nothing goes on.
//
//go:norace
//nolint:cyclop,funlen // one case for each way to wait
func (x *explorer) stuck(s *state) string {
	h := s.head()
	list := h.list()
	waiters, holders := list&^h.g, list&h.g
	for i := range x.c.Requests {
		l, bit := &s.locals[i], uint8(1)<<i
		switch {
		case l.pc == stays && waiters&(1<<x.c.Requests[i].Of) == 0:
			return requestName(i) + " stays for one that waits no more"
		case list&bit == 0 && l.pc == holds:
			return requestName(i) + " has lost the lock, and never learns of it"
		case list&bit == 0:
		case l.pc == ended || l.pc == unborn || l.late != 0:
			return requestName(i) + "'s node stays, and no client knows of it"
		case holders&bit != 0 && l.pc == waits:
			return requestName(i) + " was granted, and never learns of it"
		case l.pc == holds && h.nodes[i].mail&waiters&^l.heard != 0:
			return requestName(i) + " is preempted, and never learns of it"
		}
	}
	if waiters == 0 {
		return ""
	}
	f := x.firstOf(s, waiters)
	l, bit := &s.locals[f], uint8(1)<<f
	rivals := holders
	if x.c.Requests[f].Shared {
		for i := range x.c.Requests {
			if h.nodes[i].shared() {
				rivals &^= 1 << i
			}
		}
	}
	if rivals == 0 {
		due := h.g & h.d &^ list & x.foes(f) &^ l.out &^ x.over(s, h)
		switch {
		case due == 0 && l.seen&^l.out&^s.unclean != 0:
			return requestName(f) + " waits out a lock delay that is none"
		case due == 0 && l.seen&^l.out != 0:
			// one who was more important took the lock at the end of the delay; its own timer is due as well
		case due == 0:
			return requestName(f) + " waits for a lock that is free, and nothing will wake it"
		case due&^s.unclean != 0:
			return requestName(f) + " waits out a lock delay after a clean end"
		case due&^l.seen != 0:
			return requestName(f) + " waits for the end of a lock delay, without a timer"
		}
		return ""
	}
	if l.flags&first == 0 {
		return requestName(f) + " is first, and does not know it: no waiter watches leases and grace periods"
	}
	for r := rivals; r != 0; r &= r - 1 {
		if j := lowest(r); h.nodes[j].mail&bit == 0 && !x.mayAsk(s, f, j) {
			return ""
		}
	}
	for r := rivals; r != 0; r &= r - 1 {
		if j := lowest(r); h.nodes[j].mail&bit == 0 && x.c.Requests[f].Priority > x.c.Requests[j].Priority {
			return fmt.Sprintf("%s outranks %s, and never preempts it", requestName(f), requestName(j))
		}
	}
	return ""
}
