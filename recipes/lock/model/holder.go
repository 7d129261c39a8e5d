package model

// holder makes the steps of one that believes to hold.
//
//go:norace
//nolint:cyclop,funlen // one case for each step of a holder
func (x *explorer) holder(s *state, i int) {
	l, me := &s.locals[i], uint8(1)<<i
	h := x.view(s, i)
	t := *s
	n := &t.locals[i]
	switch l.pc {
	case holdsNew:
		own := h.nodes[i]
		n.flags &^= told
		n.watch = l.watch&me | me
		switch {
		case l.token == 0 && !x.on(TokenOfOwnGrant):
			*n = *l
			n.token = h.token()
		case l.flags&gone != 0 || !own.there():
			*n = local{pc: ended}
		default:
			n.pc, n.heard = holds, own.mail
			if n.versions[i] = 0; x.c.Requests[i].Turns > 0 {
				n.versions[i] = own.version
			}
			if l.token == 0 {
				n.token = own.token
			}
			if own.shared() {
				n.modes |= me
			}
			x.rest(n, i)
		}
		x.give(&t, action{kind: actLooksAtHold, who: uint8(i)})
	case holds:
		if l.flags&(told|gone) != 0 {
			n.pc = holdsNew
			x.give(&t, action{kind: actWoken, who: uint8(i)})
		}
		if int(s.turns[i]) < x.c.Requests[i].Turns && (l.heard == 0 || !x.on(PassUnasked)) {
			u := *s
			u.locals[i].pc = passes
			x.give(&u, action{kind: actPasses, who: uint8(i), env: true})
		}
		u := *s
		x.letGo(&u.locals[i], i)
		x.give(&u, action{kind: actLetsGo, who: uint8(i), env: true})
		if s.walkers&me != 0 { // it walks out without a look
			u = *s
			u.locals[i].pc, u.locals[i].list, u.locals[i].g, u.locals[i].open = leavesUnseen, 0, 0, 0
			x.give(&u, action{kind: actLetsGo, who: uint8(i), env: true})
		}
		if x.c.Requests[i].Shared || l.modes&me != 0 {
			return
		}
		hold := x.together(l, i)
		if x.c.Foresees && l.heard == 0 {
			x.foresee(s, i)
		}
		if !hold || x.delaying&me == 0 {
			u = *s // without a look
			n := &u.locals[i]
			if n.pc, n.list, n.g = leaves, me, me; hold {
				n.pc, n.list, n.g = leavesUnseen, 0, 0
			}
			x.give(&u, action{kind: actLetsGo, who: uint8(i), env: true})
		}
		if x.c.Requests[i].Downgrades && (x.holding&me == 0 || !x.on(NoDowngradeOfHold)) {
			u = *s
			u.locals[i].pc = sharesG
			u.locals[i].modes |= me
			x.give(&u, action{kind: actShares, who: uint8(i), env: true})
		}
	case leavesG:
		n.v, n.g, n.d, n.k, n.open, n.over, n.pc = h.v, h.g, h.d, h.k, h.open, x.over(s, h), leavesList
		x.give(&t, action{kind: actReadsG, who: uint8(i)})
	case leavesList:
		n.list, n.pc = h.list(), leaves
		n.g |= n.list & s.walkers
		if n.list&me == 0 {
			*n = local{pc: ended}
		}
		for w := n.list &^ me; w != 0; w &= w - 1 {
			j := lowest(w)
			n.versions[j] = h.nodes[j].version
		}
		if heirs := x.heirs(&t, i); n.pc == leaves {
			for j := range n.versions {
				if heirs&(1<<j) == 0 {
					n.versions[j] = 0
				}
			}
		}
		x.give(&t, action{kind: actLists, who: uint8(i)})
	case leaves, leavesUnseen:
		x.write(s, i, x.pending(s, i))
	case sharesG:
		n.v, n.g, n.d, n.k, n.pc = h.v, h.g, h.d, h.k, sharesNode
		x.give(&t, action{kind: actReadsG, who: uint8(i)})
	case sharesNode:
		own := h.nodes[i]
		n.flags &^= told
		n.watch |= me
		switch {
		case !own.there():
			*n = local{pc: ended}
		case own.shared():
			n.pc = holdsNew
		default:
			n.pc, n.versions[i] = shares, own.version
		}
		x.give(&t, action{kind: actReadsNode, who: uint8(i)})
	case shares:
		x.write(s, i, opT10)
	case passes:
		x.write(s, i, opT17)
	default:
	}
}

// rest forgets what a holder that only holds has read.
//
//go:norace
func (x *explorer) rest(l *local, i int) {
	next := local{
		pc: l.pc, flags: l.flags & (told | gone | sole), mine: l.mine, epoch: l.epoch, modes: l.modes & (1 << i),
		watch: l.watch & (1 << i), token: l.token, heard: l.heard,
	}
	if l.flags&sole == 0 {
		next.mine, next.epoch = 0, 0
	}
	next.versions[i] = l.versions[i]
	if x.c.Foresees {
		next.list = l.list
	}
	*l = next
}

// letGo begins a release: a shared holder reads G before it lists.
//
//go:norace
func (x *explorer) letGo(l *local, i int) {
	alone := !x.together(l, i)
	next := local{
		pc: leavesG, flags: l.flags & sole, modes: l.modes & (1 << i), token: l.token, epoch: l.epoch, mine: l.mine,
	}
	if alone {
		next.pc, next.g = leavesList, 1<<i
	}
	*l = next
}

// heirs are the waiters that a leaving holder grants, of those that it has
// listed.
//
//go:norace
func (x *explorer) heirs(s *state, i int) (heirs uint8) {
	l, me := &s.locals[i], uint8(1)<<i
	waiters := l.list &^ me
	if x.together(l, i) {
		if waiters&l.g != 0 || dead(l)&^me != 0 && x.on(DelayBeforeT4) {
			return 0 // others hold, or a delay goes on
		}
	}
	for waiters != 0 {
		f := x.firstOf(s, waiters)
		alone := !x.c.Requests[f].Shared
		if heirs != 0 && alone {
			break
		}
		heirs |= 1 << f
		waiters &^= 1 << f
		if alone {
			break
		}
	}
	return heirs
}

// foresee is a hand-over by a list from before the grant.
//
//go:norace
func (x *explorer) foresee(s *state, i int) {
	l, me := &s.locals[i], uint8(1)<<i
	if l.list&me == 0 || x.together(l, i) && l.flags&sole == 0 {
		return
	}
	behind := uint8(0)
	for w := l.list &^ me; w != 0; w &= w - 1 {
		if j := lowest(w); x.precedes(s, i, j) {
			behind |= 1 << j
		}
	}
	heir := x.firstOf(s, behind)
	if heir < 0 {
		return
	}
	t := *s
	n := &t.locals[i]
	n.pc, n.list, n.g = leaves, me|1<<heir, me
	if x.together(l, i) {
		n.v = l.mine // of the own grant: no member has joined since
	}
	x.give(&t, action{kind: actHeirKnown, who: uint8(i), env: true})
}
