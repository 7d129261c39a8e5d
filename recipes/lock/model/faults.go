package model

// faults makes the steps that no request takes: what breaks, what times out,
// and what people do.
//
//go:norace
func (x *explorer) faults(s *state) {
	for i := range x.c.Requests {
		x.mishaps(s, i)
	}
	if s.expiries > 0 {
		for c := range x.c.Requests {
			if x.lives(s, c) {
				x.expire(s, c, false)
				if s.late > 0 {
					x.expire(s, c, true)
				}
			}
		}
	}
	x.operator(s)
	x.remover(s)
}

// lives reports whether anything of a client is at stake.
//
//go:norace
func (x *explorer) lives(s *state, client int) bool {
	for i, r := range x.c.Requests {
		if pc := s.locals[i].pc; r.Client == client && pc > unborn && (pc < ended || s.head().nodes[i].there()) &&
			s.locals[i].late == 0 {
			return true
		}
	}
	return false
}

// expire ends a session: its nodes go, and the client that depended on it has
// learnt that before, by its deadline. What was on its way may be sent under
// the next one.
//
//go:norace
//nolint:cyclop // one case for each state that a session can leave behind
func (x *explorer) expire(s *state, client int, late bool) {
	t := *s
	t.expiries--
	h := t.past[0]
	changed, stays := false, false
	for i, r := range x.c.Requests {
		if r.Client != client {
			continue
		}
		l := &t.locals[i]
		if l.late == 0 && h.nodes[i].there() {
			x.remove(&t, &h, i)
			changed = true
		}
		switch {
		case l.late != 0, l.pc == idle, l.pc == unborn, l.pc == ended:
		case late && x.pending(&t, i) != opNone && l.pc != undoes && l.pc != movesIn && !stays:
			l.late, stays = 1, true
			l.flags, l.watch, l.seen, l.early = 0, 0, 0, 0
		case !x.on(Deadline) && (l.pc == holds || l.pc == holdsNew):
		case !x.on(NewGUID) && l.pc >= joined && l.pc < holdsNew:
			*l = local{pc: fresh, epoch: h.epoch}
		default:
			*l = local{pc: ended}
		}
	}
	if late {
		if !stays {
			return
		}
		t.late--
	}
	t.remembered &^= 1 << client
	t.version[client], t.ofEpoch[client] = 0, 0
	if changed {
		x.commit(&t, &h)
	}
	x.catchUp(&t, client) // the next session begins with a sync
	x.give(&t, action{kind: actExpires, who: uint8(client), env: true})
}

// mishaps are what may happen to one request.
//
//go:norace
func (x *explorer) mishaps(s *state, i int) {
	l, bit := &s.locals[i], uint8(1)<<i
	h := s.head()
	holding := h.nodes[i].there() && h.g&bit != 0
	if s.leases > 0 && holding && s.leaseOver&bit == 0 {
		t := *s
		t.leases--
		t.leaseOver |= bit
		x.give(&t, action{kind: actLeaseEnds, who: uint8(i), env: true})
	}
	if (s.dueAlone|s.dueShared)&bit != 0 {
		t := *s
		t.dueAlone &^= bit
		t.dueShared &^= bit
		x.give(&t, action{kind: actDelayEnds, who: uint8(i), env: true})
	}
	if s.deletes > 0 && h.nodes[i].there() {
		t := *s
		t.deletes--
		after := *h
		x.remove(&t, &after, i)
		t.evicted |= bit
		x.commit(&t, &after)
		x.give(&t, action{kind: actDeleted, who: uint8(i), env: true})
	}
	if s.lapses > 0 && (l.pc == holds || l.pc == holdsNew) {
		t := *s
		t.lapses--
		t.locals[i] = local{pc: undoes}
		x.give(&t, action{kind: actLapses, who: uint8(i), env: true})
	}
	if s.lost > 0 && l.pc == waits {
		t := *s
		t.lost--
		x.cutOff(&t, i, opKnock)
		x.give(&t, action{kind: actCut, who: uint8(i), env: true})
	}
}

// operator is the step in which an operator breaks the lock of a holder.
//
//go:norace
//nolint:cyclop,funlen // one case for each step of an operator
func (x *explorer) operator(s *state) {
	b, h := &s.operator, s.head()
	t := *s
	o := &t.operator
	switch b.pc {
	case idle:
		if s.breaks == 0 || h.lives == 0 {
			return
		}
		if h.open != 0 {
			after := *h
			after.open = 0
			after.v++
			x.commit(&t, &after)
			x.give(&t, action{kind: actOperatorReads, env: true})
			return
		}
		o.v, o.g, o.d, o.pc = h.v, h.g, h.d, wantsList
		t.breaks--
		x.give(&t, action{kind: actOperatorReads, env: true})
	case wantsList:
		o.list, o.pc = h.list()&(b.g|s.walkers), decides
		for j := range o.versions {
			if o.list&(1<<j) != 0 {
				o.versions[j] = h.nodes[j].version
			}
		}
		if o.list == 0 {
			*o = agent{}
		}
		x.give(&t, action{kind: actOperatorLists, env: true})
	case decides:
		for set := b.list; set != 0; set &= set - 1 {
			j := lowest(set)
			bit := uint8(1) << j
			t := *s
			after := *h
			broken := bit
			if x.on(BreakTakesAll) {
				broken |= b.list & x.mates[j]
			}
			ok := !x.on(VersionInBreak) || h.v == b.v
			for set := broken; set != 0; set &= set - 1 {
				k := lowest(set)
				ok = ok && after.nodes[k].there() && after.nodes[k].version == b.versions[k]
			}
			if ok {
				for set := broken; set != 0; set &= set - 1 {
					x.remove(&t, &after, lowest(set))
					x.takes(&t, lowest(set))
				}
				t.evicted |= broken
				out := broken
				if x.on(BreakForgetsDead) {
					out |= b.g &^ b.list & x.holding
				}
				if x.on(DelayKeptByBreak) {
					out &^= b.d
				}
				after.g, after.d = b.g&^out, b.d&^out
				after.m = after.m&after.d | broken&after.d
				after.k = (after.k | (broken|b.g&^b.list)&x.noted()) & after.d
				after.v++
				if left := after.list() & after.g & x.mates[j]; left != 0 {
					x.fail("%s holds on, and its hold was broken", lowest(left))
				}
				x.commit(&t, &after)
			} else {
				t.breaks++ // it reads again
			}
			t.operator = agent{}
			x.give(&t, action{kind: actOperatorBreaks, who: uint8(j), env: true, yes: ok})
		}
	default:
	}
}

// remover is the removal of idle locks.
//
//go:norace
func (x *explorer) remover(s *state) {
	r, h := &s.remover, s.head()
	t := *s
	o := &t.remover
	switch r.pc {
	case idle:
		if s.removals == 0 || h.lives == 0 || h.list() != 0 || h.d&^x.over(s, h) != 0 && x.on(RemovalMindsDelay) {
			return
		}
		o.v, o.pc = h.v, decides
		t.removals--
		x.give(&t, action{kind: actRemoverReads, env: true})
	case decides:
		*o = agent{}
		ok := h.lives == 1 && h.list() == 0 && (h.v == r.v || !x.on(RemovalVersion))
		if ok {
			after := snapshot{epoch: h.epoch + 1}
			x.commit(&t, &after)
		}
		x.give(&t, action{kind: actRemoves, env: true, yes: ok})
	default:
	}
}
