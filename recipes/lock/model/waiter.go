package model

// waiter makes the steps of one that queues.
//
//go:norace
//nolint:cyclop,funlen // one case for each step of a waiter
func (x *explorer) waiter(s *state, i int) {
	l := &s.locals[i]
	h := x.view(s, i)
	t := *s
	n := &t.locals[i]
	if l.pc != movesIn && !x.c.NoGiveUp {
		x.giveUp(s, i)
	}
	switch l.pc {
	case joined:
		if !x.on(OwnWatchFirst) {
			n.pc = wantsG
			x.give(&t, action{kind: actLooksOwn, who: uint8(i)})
			return
		}
		x.lookOwn(s, i, wantsG)
		if x.c.Scouts && x.on(VersionBeforeList) {
			x.scout(s, i)
		}
	case scoutsG, scoutsList, scoutsBoth, scoutsOwn:
		x.scout(s, i)
	case wantsG:
		switch {
		case l.flags&told != 0:
			x.begin(&t, i, 0)
			x.give(&t, action{kind: actToldGranted, who: uint8(i)})
			return
		case l.flags&gone != 0:
			*n = local{pc: ended}
			x.give(&t, action{kind: actToldGone, who: uint8(i)})
			return
		}
		if r := x.c.Requests[i]; r.Becomes != 0 {
			x.write(s, i, opT12)
		} else if r.Revises && l.flags&rewrote == 0 {
			x.write(s, i, opT13)
		}
		if x.on(VersionBeforeList) {
			n.v, n.g, n.d, n.k, n.open, n.over, n.pc = h.v, h.g, h.d, h.k, h.open, x.over(s, h), wantsList
			x.give(&t, action{kind: actReadsG, who: uint8(i)})
		} else {
			n.list, n.pc = h.list(), wantsList
			x.give(&t, action{kind: actLists, who: uint8(i)})
		}
	case wantsList:
		switch {
		case !x.on(VersionBeforeList):
			n.v, n.g, n.d, n.k, n.open, n.over, n.pc = h.v, h.g, h.d, h.k, h.open, x.over(s, h), decides
			n.g |= n.list & s.walkers
		case x.delaying != 0 && x.on(SameVersion) && (h.v != l.v || h.epoch != 0 && h.lives == 0):
			x.again(n, i, wantsG)
		default:
			n.list, n.pc = h.list(), decides
			n.g |= n.list & s.walkers
		}
		kind := actLists
		if !x.on(VersionBeforeList) {
			kind = actReadsG
		}
		x.give(&t, action{kind: kind, who: uint8(i)})
	case decides:
		x.decide(s, i)
	case leads:
		x.lead(s, i)
	case leadsReady:
		if x.mayTakeOver(s, i) {
			x.write(s, i, opT7)
		}
		x.wait(n, i)
		x.give(&t, action{kind: actWaits, who: uint8(i)})
	case waits:
		x.wake(s, i)
	case knocksG:
		n.v, n.g, n.d, n.k, n.pc = h.v, h.g, h.d, h.k, knocks
		x.give(&t, action{kind: actReadsG, who: uint8(i)})
	case knocks:
		x.write(s, i, opKnock)
	case marks:
		x.write(s, i, opMark)
	case movesIn:
		x.write(s, i, opT12Leave)
	default:
	}
}

// lookOwn looks at the own node, and watches it.
//
//go:norace
func (x *explorer) lookOwn(s *state, i int, next place) {
	h := x.view(s, i)
	t := *s
	n := &t.locals[i]
	n.watch, n.flags = n.watch|1<<i, n.flags&^(told|gone)
	own := h.nodes[i]
	switch {
	case !own.there():
		*n = local{pc: ended}
	case own.granted():
		x.begin(&t, i, own.token)
	default:
		n.versions[i] = own.version
		n.pc = next
	}
	x.give(&t, action{kind: actLooksOwn, who: uint8(i)})
}

// scout makes the steps of one that sends all its reads at once.
//
//go:norace
func (x *explorer) scout(s *state, i int) {
	l, h := &s.locals[i], x.view(s, i)
	listed := l.pc == scoutsList || l.pc == scoutsOwn
	switch l.pc {
	case scoutsG:
		x.lookOwn(s, i, wantsList)
	case scoutsList:
		x.lookOwn(s, i, scoutsOwn)
	case scoutsBoth:
		x.lookOwn(s, i, decides)
	default:
	}
	if l.pc == joined || l.pc == scoutsG { // the list, and the version that comes with it
		t := *s
		n := &t.locals[i]
		n.list = h.list()
		n.g |= n.list & s.walkers
		if n.pc = scoutsBoth; l.pc == joined {
			n.v, n.pc = h.v, scoutsList
		}
		x.give(&t, action{kind: actLists, who: uint8(i)})
	}
	if l.pc == joined || listed {
		t := *s
		n := &t.locals[i]
		if listed && h.v != l.v && x.on(ScoutsOneVersion) {
			x.again(n, i, wantsG)
		} else {
			n.v, n.g, n.d, n.k, n.open, n.over = h.v, h.g|n.list&s.walkers, h.d, h.k, h.open, x.over(s, h)
			switch l.pc {
			case joined:
				n.pc = scoutsG
			case scoutsList:
				n.pc = scoutsBoth
			default:
				n.pc = decides
			}
		}
		x.give(&t, action{kind: actReadsG, who: uint8(i)})
	}
}

// giveUp is T8, or what makes a granted one let go.
//
//go:norace
func (x *explorer) giveUp(s *state, i int) {
	l := &s.locals[i]
	// One that was adopted may be granted at version 0: it looks first.
	adopted := l.pc == joined && x.delaying&(1<<i) != 0 && x.on(LeaveVersion)
	if l.flags&told == 0 && !adopted {
		x.write(s, i, opT8)
	}
}

// begin makes a holder of a waiter. The token is 0 if it was not read.
//
//go:norace
func (x *explorer) begin(t *state, i int, token uint8) {
	l := &t.locals[i]
	next := local{pc: holdsNew, token: token, epoch: l.epoch, watch: l.watch & (1 << i)}
	if x.c.Foresees {
		next.list = l.list
	}
	*l = next
}

// decide is what a waiter does with G and the list.
//
//go:norace
//nolint:cyclop,funlen // the whole decision stands in one place, as in the package that is modelled
func (x *explorer) decide(s *state, i int) {
	l, me := &s.locals[i], uint8(1)<<i
	t := *s
	n := &t.locals[i]
	switch {
	case l.open != 0 && x.on(ShutBeforeT3):
		x.write(s, i, opShut)
		return
	case l.g&me != 0 && l.list&me != 0:
		x.begin(&t, i, 0)
		x.give(&t, action{kind: actToldGranted, who: uint8(i)})
		return
	case l.list&me == 0:
		x.again(n, i, joined)
		x.give(&t, action{kind: actWoken, who: uint8(i)})
		return
	}
	h := x.view(s, i)
	alive := l.list & l.g
	front := uint8(0)
	for w := l.list &^ alive &^ me; w != 0; w &= w - 1 {
		if j := lowest(w); x.precedes(s, j, i) {
			front |= 1 << j
		}
	}
	if front != 0 {
		pred := i
		for ; front != 0; front &= front - 1 {
			if j := lowest(front); pred == i || x.precedes(s, pred, j) {
				pred = j
			}
		}
		n.flags &^= first | watchesL
		n.watch = l.watch&me | 1<<pred
		p := h.nodes[pred]
		if !p.there() || p.granted() && x.on(LookAtPredecessor) {
			n.watch &= me | 1<<pred
			if !p.there() {
				n.watch &= me
			}
			x.again(n, i, wantsG)
		} else {
			x.wait(n, i)
		}
		x.give(&t, action{kind: actFollows, who: uint8(i)})
		return
	}
	if x.c.Knocks && l.flags&knocked == 0 {
		for a := alive; a != 0; a &= a - 1 {
			j := lowest(a)
			if s.order[j] > s.order[i] && x.c.Requests[j].Priority <= x.c.Requests[i].Priority {
				x.again(n, i, knocksG)
				x.give(&t, action{kind: actWoken, who: uint8(i)})
				return
			}
		}
	}
	if x.mayGrantSelf(s, i) {
		x.write(s, i, opT3)
		return
	}
	n.flags |= first
	if x.mourn(s, n, i) {
		n.pc = marks
		x.give(&t, action{kind: actMourns, who: uint8(i)})
		return
	}
	if alive == 0 || x.c.Requests[i].Shared && alive&^x.sharing == 0 {
		n.watch = l.watch & me
		n.flags &^= watchesL
		if dead(l)&named(l)&x.holding != 0 && x.on(DelayWatchesL) { // the hold may be resumed
			n.flags |= watchesL
			if h.v != l.v || h.lives == 0 {
				x.again(n, i, wantsG)
				x.give(&t, action{kind: actWatchesL, who: uint8(i)})
				return
			}
		}
		x.wait(n, i)
		x.give(&t, action{kind: actWaits, who: uint8(i)})
		return
	}
	n.watch = l.watch & me
	n.flags &^= watchesL
	missing := false
	for a := alive; a != 0; a &= a - 1 {
		j := lowest(a)
		holder := h.nodes[j]
		if !holder.there() {
			missing = true
			continue
		}
		n.watch |= 1 << j
		n.versions[j] = holder.version
		if holder.shared() {
			n.modes |= 1 << j
		}
		if holder.mail&me != 0 {
			n.mail |= 1 << j
		}
		if !x.on(MailboxVersion) {
			n.mails[j] = holder.mail
		}
	}
	if n.pc = leads; missing {
		x.again(n, i, wantsG)
	}
	x.give(&t, action{kind: actLooksHolders, who: uint8(i)})
}

// mourn begins to wait out the delays of the dead. It reports whether L has to
// be written first: a client that reads the v of that write sees the waiters.
//
//go:norace
func (x *explorer) mourn(s *state, l *local, i int) bool {
	due := dead(l) & x.foes(i) &^ l.seen
	l.early |= due & s.head().list() // they live: the clock starts too early
	if due != 0 && x.on(MarkBeforeWait) {
		return true
	}
	l.seen |= due
	return false
}

// over are those whose delay is over, as L tells: it says when their ends were
// noticed.
//
//go:norace
func (x *explorer) over(s *state, h *snapshot) uint8 {
	return h.m & (s.tooEarly | s.unclean&^(s.dueAlone|s.dueShared))
}

// waitedOut reports whether no delay stands in the way.
//
//go:norace
func (x *explorer) waitedOut(l *local, i int) bool {
	return !x.on(DelayBeforeT3) || dead(l)&x.foes(i)&^l.out == 0
}
