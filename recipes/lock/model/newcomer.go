package model

// arrive begins a request: it is cheaper to let equal ones begin in order.
//
//go:norace
func (x *explorer) arrive(s *state, i int) {
	r := x.c.Requests[i]
	if b := x.before[i]; b >= 0 && s.locals[b].pc != ended && s.locals[b].late == 0 {
		return
	} else if b >= 0 && x.twin[b] > b && s.locals[x.twin[b]].pc != ended && s.locals[x.twin[b]].pc != unborn {
		return
	}
	for j := range i {
		q := x.c.Requests[j]
		if q.Client != r.Client && s.locals[j].pc == idle && x.alike(i, j) {
			return
		}
	}
	if r.Role != Queues {
		x.arriveSeeking(s, i)
		return
	}
	t := *s
	t.locals[i] = local{pc: fresh, epoch: x.view(s, i).epoch}
	x.give(&t, action{kind: actArrives, who: uint8(i), env: true})
	if c := uint8(1) << r.Client; s.remembered&c != 0 && !x.c.NoFastPath {
		t := *s
		t.locals[i] = local{pc: looked, v: s.version[r.Client], epoch: s.ofEpoch[r.Client]}
		t.remembered &^= c
		t.version[r.Client], t.ofEpoch[r.Client] = 0, 0
		x.give(&t, action{kind: actRemembers, who: uint8(i), env: true})
	}
}

// alike reports whether two requests can change places: both are the only ones
// of their clients.
//
//go:norace
func (x *explorer) alike(i, j int) bool {
	a, b := x.c.Requests[i], x.c.Requests[j]
	if x.sought&(1<<i|1<<j) != 0 {
		return false
	}
	for k, r := range x.c.Requests {
		if k != i && r.Client == a.Client || k != j && r.Client == b.Client {
			return false
		}
	}
	b.Client = a.Client
	return a == b
}

// newcomer makes the steps of one that has no node yet.
//
//go:norace
func (x *explorer) newcomer(s *state, i int) {
	h := x.view(s, i)
	switch s.locals[i].pc {
	case fresh:
		if h.lives == 0 {
			x.write(s, i, opEnsure)
			return
		}
		t := *s
		l := &t.locals[i]
		l.v, l.g, l.d, l.k, l.open, l.list, l.pc = h.v, h.g, h.d, h.k, h.open, h.list(), looked
		l.over = x.over(s, h)
		for a := l.list & l.g; a != 0; a &= a - 1 {
			if j := lowest(a); h.nodes[j].shared() {
				l.modes |= 1 << j
			}
		}
		if !x.on(EpochBeforeVersion) {
			l.pc = wantsEpoch
		}
		x.give(&t, action{kind: actReads, who: uint8(i)})
	case wantsEpoch:
		t := *s
		t.locals[i].epoch, t.locals[i].pc = h.epoch, looked
		x.give(&t, action{kind: actReadsEpoch, who: uint8(i)})
	default:
		x.write(s, i, x.pending(s, i))
	}
}

// enters is the transaction of a newcomer that has looked.
//
//go:norace
func (x *explorer) enters(s *state, i int) op {
	l, r := &s.locals[i], x.c.Requests[i]
	alive := l.list & l.g
	if dead(l)&x.foes(i) != 0 && x.on(DelayInT1) {
		return opT2
	}
	if l.open != 0 {
		switch {
		case x.mayWalk(i):
			return opT18
		case (l.list == 0 || r.Shared) && x.on(ShutBeforeT1):
			return opShut
		}
	}
	switch {
	case l.list == 0 && (dead(l) == 0 || !x.on(DelayInT1)):
		return opT1
	case r.Shared && l.list != 0 && alive&^l.modes == 0:
		for w := l.list &^ alive; w != 0; w &= w - 1 {
			if q := x.c.Requests[lowest(w)]; !q.Shared && q.Priority >= r.Priority {
				return opT2
			}
		}
		return opT1Beside
	}
	return opT2
}

// outranks is the order of the queue.
//
//go:norace
func (x *explorer) precedes(s *state, a, b int) bool {
	p, q := x.c.Requests[a].Priority, x.c.Requests[b].Priority
	return p > q || p == q && s.order[a] < s.order[b]
}

// firstOf returns the first of a set.
//
//go:norace
func (x *explorer) firstOf(s *state, set uint8) int {
	f := -1
	for ; set != 0; set &= set - 1 {
		if j := lowest(set); f < 0 || x.precedes(s, j, f) {
			f = j
		}
	}
	return f
}

// pending is the transaction that a request has decided on; opNone: it has not.
//
//go:norace
//nolint:cyclop // one case for each state of a request
func (x *explorer) pending(s *state, i int) op {
	l := &s.locals[i]
	switch l.pc {
	case looked:
		return x.enters(s, i)
	case mustJoin:
		return opT2
	case decides:
		switch {
		case l.open != 0 && x.on(ShutBeforeT3):
			return opShut
		case x.mayGrantSelf(s, i):
			return opT3
		}
	case leads:
		switch {
		case x.rivals(l, i) == 0 && x.waitedOut(l, i):
			return opT3
		case x.toAsk(s, i) >= 0:
			return opT6
		}
	case leadsReady:
		if x.mayTakeOver(s, i) {
			return opT7
		}
	case knocks:
		return opKnock
	case marks:
		return opMark
	case movesIn:
		return opT12Leave
	case leavesUnseen:
		return opT5Bare
	case leaves:
		switch {
		case l.open != 0 && x.on(NoT4WhileOpen):
			return opT5Bare
		case x.heirs(s, i) != 0:
			return opT4
		}
		return opT5
	case shares:
		return opT10
	case passes:
		return opT17
	case seeks:
		return x.comesBy(l, i)
	case undoes:
		return opUndo
	default:
	}
	return opNone
}

// reply is what a request makes of an answer.
//
//go:norace
//nolint:cyclop,funlen // one case for each transaction and answer
func (x *explorer) reply(t *state, i int, o op, ok bool) {
	l, me := &t.locals[i], uint8(1)<<i
	h := t.head()
	switch o {
	case opEnsure:
	case opShut:
		if l.pc == looked {
			*l = local{pc: fresh, epoch: h.epoch}
		} else {
			x.again(l, i, wantsG)
		}
	case opT18:
		if *l = (local{pc: fresh, epoch: h.epoch}); ok {
			*l = local{pc: holdsNew, epoch: l.epoch}
		}
	case opT1, opT1Beside:
		switch {
		case ok:
			epoch := l.epoch
			*l = local{pc: holdsNew, token: h.token(), epoch: epoch, modes: l.modes & me}
			if h.g == me || !x.on(RememberedAlone) {
				l.mine, l.flags = h.v, sole
			}
		case h.lives == 0:
			*l = local{pc: fresh, epoch: h.epoch}
		default:
			*l = local{pc: mustJoin, epoch: l.epoch}
		}
	case opT2:
		if *l = (local{pc: joined, epoch: l.epoch}); !ok {
			l.pc = fresh
			l.epoch = h.epoch
		}
	case opT3:
		if ok {
			*l = local{pc: holdsNew, token: h.token(), epoch: l.epoch}
			if h.g == me || !x.on(RememberedAlone) {
				l.mine, l.flags = h.v, sole
			}
			return
		}
		x.again(l, i, joined)
	case opT7:
		switch {
		case ok && h.g&me != 0:
			*l = local{pc: holdsNew, token: h.token(), epoch: l.epoch}
		case ok: // only deleted
			x.again(l, i, wantsG)
		default:
			x.again(l, i, joined)
		}
	case opT4:
		if ok || !h.nodes[i].there() {
			*l = local{pc: ended}
		} else {
			x.letGo(l, i)
		}
	case opT14, opT15, opT16:
		if ok {
			*l = local{pc: holdsNew, token: h.nodes[i].token, epoch: l.epoch}
			if h.g == me || !x.on(RememberedAlone) {
				l.mine, l.flags = h.v, sole
			}
		} else {
			*l = local{pc: seeksG, epoch: h.epoch}
		}
	case opT17:
		switch {
		case ok:
			*l = local{pc: holdsNew, token: h.token(), epoch: l.epoch, mine: h.v, flags: sole}
		case h.nodes[i].there():
			x.letGo(l, i)
		default:
			*l = local{pc: ended}
		}
	case opT5:
		r := x.c.Requests[i]
		switch {
		case ok || !h.nodes[i].there():
			if ok && l.flags&sole != 0 && !x.c.NoFastPath && (h.g == 0 || !x.cleanly(i) || !x.on(RememberedAlone)) {
				t.remembered |= 1 << r.Client
				t.version[r.Client], t.ofEpoch[r.Client] = l.mine, l.epoch
				if x.cleanly(i) {
					t.version[r.Client] = h.v
				}
			}
			*l = local{pc: ended}
		default:
			x.letGo(l, i)
		}
	case opT5Bare:
		if ok && l.flags&sole != 0 && !x.c.NoFastPath {
			client := x.c.Requests[i].Client
			t.remembered |= 1 << client
			t.version[client], t.ofEpoch[client] = l.mine, l.epoch
		}
		*l = local{pc: ended}
	case opT6:
		j := x.toAsk(t, i)
		if !ok {
			x.again(l, i, wantsG)
			return
		}
		l.mail |= 1 << j
		l.versions[j]++
	case opT8:
		if ok || !h.nodes[i].there() {
			*l = local{pc: ended}
		} else {
			x.again(l, i, joined)
		}
	case opT10:
		if ok {
			l.pc = holds
			x.rest(l, i)
			if l.flags&told != 0 || l.watch&me == 0 {
				l.pc = holdsNew
			}
			return
		}
		l.pc = sharesG
		l.v, l.g, l.d, l.k, l.versions = 0, 0, 0, 0, [maxRequests]uint8{}
	case opT12:
		if !ok {
			x.again(l, i, joined)
			return
		}
		k := x.c.Requests[i].Becomes
		t.locals[k] = local{pc: joined, epoch: l.epoch}
		if *l = (local{pc: ended}); !x.on(MoveAtOnce) {
			l.pc = movesIn
		}
	case opT12Leave, opUndo:
		*l = local{pc: ended}
	case opT13:
		if ok {
			l.versions[i]++
			x.again(l, i, wantsG)
		} else {
			x.again(l, i, joined)
		}
	case opKnock:
		if ok {
			l.flags |= knocked
			x.again(l, i, wantsG)
		} else {
			x.again(l, i, knocksG)
		}
	case opMark:
		if ok {
			l.seen |= dead(l) & x.foes(i) &^ l.out
		}
		x.again(l, i, joined)
	case opNone:
	}
}

// again makes a waiter read anew. What it knows of its own node, its watches and
// the delays that it waits out stays.
//
//go:norace
func (x *explorer) again(l *local, i int, pc place) {
	own := l.versions[i]
	if pc == wantsG && l.watch&(1<<i) == 0 && l.flags&(told|gone) == 0 && x.on(OwnWatchFirst) {
		pc = joined
	}
	*l = local{
		pc: pc, flags: l.flags &^ poked, epoch: l.epoch, watch: l.watch,
		seen: l.seen, early: l.early, out: l.out,
	}
	l.versions[i] = own
}
