package model

// mayGrantSelf reports whether G and the list alone allow T3.
//
//go:norace
func (x *explorer) mayGrantSelf(s *state, i int) bool {
	l, me := &s.locals[i], uint8(1)<<i
	alive := l.list & l.g
	if l.list&me == 0 || l.g&me != 0 || alive != 0 && (!x.c.Requests[i].Shared || alive&^x.sharing != 0) {
		return false
	}
	for w := l.list &^ alive &^ me; w != 0; w &= w - 1 {
		if x.precedes(s, lowest(w), i) {
			return false
		}
	}
	return x.waitedOut(l, i)
}

// wait makes a waiter rest until something happens. What it has read is
// forgotten, but for what its timers are about.
//
//go:norace
func (x *explorer) wait(l *local, i int) {
	mail, list := l.mail, l.list
	poke := l.flags & poked
	x.again(l, i, waits)
	l.flags |= poke
	l.mail = mail
	if x.c.Foresees {
		l.list = list
	}
	if !x.on(OwnWatchFirst) {
		l.watch |= 1 << i
	}
}

// wake makes the steps of one that waits.
//
//go:norace
func (x *explorer) wake(s *state, i int) {
	l, me := &s.locals[i], uint8(1)<<i
	t := *s
	n := &t.locals[i]
	switch {
	case l.flags&told != 0:
		x.begin(&t, i, 0)
		x.give(&t, action{kind: actToldGranted, who: uint8(i)})
		return
	case l.flags&gone != 0:
		*n = local{pc: ended}
		x.give(&t, action{kind: actToldGone, who: uint8(i)})
		return
	case l.flags&poked != 0:
		x.again(n, i, wantsG)
		if l.watch&me == 0 && x.on(OwnWatchFirst) {
			n.pc = joined
		}
		x.give(&t, action{kind: actWoken, who: uint8(i)})
	}
	if l.flags&first != 0 && l.flags&poked == 0 {
		// Its timers: the end of a grace, or of a lease.
		if l.mail != 0 && x.c.Requests[i].Forceful || l.watch&^me&s.leaseOver != 0 {
			t := *s
			x.again(&t.locals[i], i, wantsG)
			x.give(&t, action{kind: actTimer, who: uint8(i), env: true})
		}
		for d := l.seen &^ l.out; d != 0; d &= d - 1 {
			j := lowest(d)
			if bit := uint8(1) << j; (s.dueAlone|s.dueShared)&bit == 0 && s.unclean&bit != 0 || l.early&bit != 0 ||
				!s.head().nodes[j].there() && s.unclean&bit == 0 {
				t := *s
				n := &t.locals[i]
				x.again(n, i, wantsG)
				n.out |= bit
				x.give(&t, action{kind: actDelayTimer, who: uint8(i), env: true})
			}
		}
	}
}
