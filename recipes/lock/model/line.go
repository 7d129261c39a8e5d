package model

// passOn is T17. Those in line are one request here, which holds by one token after
// the other: what tells them apart is in no node but the one that they share.
//
//go:norace
func (x *explorer) passOn(t *state, h *snapshot, i int) bool {
	l, me := &t.locals[i], uint8(1)<<i
	n := &h.nodes[i]
	if !n.there() || x.on(PassVersion) && n.version != l.versions[i] {
		return false
	}
	if n.mail&h.list() != 0 {
		x.fail("%s passes the lock on, and is preempted", i)
	}
	n.version++
	n.mail = 0
	x.name(h, me, 0)
	switch n.token = h.token(); {
	case h.list()&h.g != me:
		x.fail("%s passes on what others hold, too", i)
	case n.token <= t.lastToken:
		x.fail("%s gets a token that is no higher than the last one", i)
	}
	t.tokens[i], t.lastToken = n.token, n.token
	t.leaseOver &^= me
	t.turns[i]++
	return true
}

// passAgain: what became of a T17 is not known. Done twice, it is as good.
//
//go:norace
func (x *explorer) passAgain(l *local, h *snapshot, i int) {
	own := h.nodes[i]
	switch {
	case !own.there():
		*l = local{pc: ended}
	case own.mail != 0 && x.on(PassLostReads):
		x.letGo(l, i)
	default:
		l.pc, l.versions[i] = passes, own.version
	}
}
