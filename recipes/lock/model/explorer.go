package model

import "fmt"

// explorer makes the steps of one configuration.
type explorer struct {
	c        *Config
	off      Protocol
	delaying uint8              // requests that declare a delay
	sharing  uint8              // shared requests
	holding  uint8              // requests with a hold id
	mates    [maxRequests]uint8 // of the same hold id
	sought   uint8              // those that references name
	twin     [maxRequests]int
	target   uint8 // requests that others become
	before   [maxRequests]int

	several bool // one transaction grants more than one

	wrong string // of the step that is being made
	emit  func(*state, action)
	went  bool // a step of the protocol itself was made
}

func newExplorer(c *Config, off Protocol) *explorer {
	x := &explorer{c: c, off: off}
	for i := range x.twin {
		x.twin[i], x.before[i] = -1, -1
	}
	for i, r := range c.Requests {
		if r.Delay {
			x.delaying |= 1 << i
		}
		if r.Shared {
			x.sharing |= 1 << i
		}
		if r.Hold != 0 {
			x.holding |= 1 << i
			for j, q := range c.Requests {
				if j != i && q.Hold == r.Hold {
					x.mates[i] |= 1 << j
				}
			}
		}
		if r.Role != Queues {
			x.sought |= 1 << r.Of
		}
		if r.Becomes != 0 {
			x.twin[i], x.twin[r.Becomes] = r.Becomes, i
			x.target |= 1 << r.Becomes
		}
	}
	for i, r := range c.Requests {
		for j := range i {
			if c.Requests[j].Client == r.Client && x.target&(1<<j) == 0 {
				x.before[i] = j
			}
		}
	}
	return x
}

//go:norace
func (x *explorer) on(g Guard) bool { return !x.off.lacks(g) }

//go:norace
func (x *explorer) fail(format string, i int) {
	if x.wrong == "" {
		x.wrong = fmt.Sprintf(format, requestName(i))
	}
}

func requestName(i int) string { return string(rune('A' + i)) }

// give hands a state on.
//
//go:norace
func (x *explorer) give(t *state, a action) {
	x.went = x.went || !a.env
	x.tidy(t)
	if x.wrong == "" {
		x.wrong = x.unsafe(t)
	}
	x.emit(t, a)
	x.wrong = ""
}

// start is the state that everything begins with.
//
//go:norace
func (x *explorer) start() *state {
	c := x.c
	s := &state{
		expiries: uint8(c.Expiries), lost: uint8(c.LostReply), late: uint8(c.Late), leases: uint8(c.Leases),
		breaks: uint8(c.Breaks), deletes: uint8(c.Deletes), removals: uint8(c.Removals), lapses: uint8(c.Lapses),
	}
	s.past[0].lives, s.past[0].v = 1, uint8(c.Idle)
	for i := range s.locals {
		if i >= len(c.Requests) {
			s.locals[i].pc = ended
		} else if x.target&(1<<i) != 0 {
			s.locals[i].pc = unborn
		}
	}
	if c.Held {
		h := s.past[0]
		s.locals[0] = local{pc: looked, v: h.v}
		x.transact(s, &h, 0, opT1)
		s.past[0] = h
		x.reply(s, 0, opT1, true)
	}
	if c.Open { // by a request that is gone
		s.past[0].open = 1
	}
	return s
}

// next makes every step that one state allows, and reports whether one of them
// was the protocol's own.
//
//go:norace
func (x *explorer) next(s *state) bool {
	x.went = false
	for i := range x.c.Requests {
		x.request(s, i)
	}
	for c := range s.lag {
		if s.lag[c] > 0 {
			t := *s
			x.step(&t, c)
			x.give(&t, action{kind: actHears, who: uint8(c)})
		}
	}
	x.faults(s)
	return x.went
}

// view is what a request's server shows.
//
//go:norace
func (x *explorer) view(s *state, i int) *snapshot {
	return &s.past[s.lag[x.c.Requests[i].Client]]
}

// request makes the steps of one request.
//
//go:norace
func (x *explorer) request(s *state, i int) {
	l := &s.locals[i]
	if l.late != 0 {
		if o := x.pending(s, i); o != opNone {
			x.write(s, i, o)
		}
		return
	}
	switch l.pc {
	case idle:
		x.arrive(s, i)
	case fresh, wantsEpoch, looked, mustJoin:
		x.newcomer(s, i)
	case seeksG, seeksList, seeksNode, seeks, stays:
		x.seeker(s, i)
	case joined, wantsG, wantsList, scoutsG, scoutsList, scoutsBoth, scoutsOwn, decides, leads, leadsReady, waits, marks,
		knocksG, knocks, movesIn:
		x.waiter(s, i)
	case holdsNew, holds, leavesG, leavesList, leaves, leavesUnseen, sharesG, sharesNode, shares, passes:
		x.holder(s, i)
	case unsureCreate, unsureWait, unsureMove, unsureHold, unsureLeave, unsurePass:
		x.reconnect(s, i)
	case undoes:
		x.write(s, i, opUndo)
	case unborn, ended:
	}
}

// write carries out a transaction of i and hands on what comes of it, the reply
// lost as well.
//
//go:norace
func (x *explorer) write(s *state, i int, o op) {
	client := x.c.Requests[i].Client
	t := *s
	h := t.past[0]
	ok := x.transact(&t, &h, i, o)
	if ok {
		x.commit(&t, &h)
	}
	if s.locals[i].late != 0 {
		x.afterLate(&t, i, o, ok)
		x.give(&t, action{kind: actLate, who: uint8(i), about: uint8(o), yes: ok})
		return
	}
	if s.lost > 0 && ok && o != opEnsure {
		u := t
		u.lost--
		x.cutOff(&u, i, o)
		wrong := x.wrong
		x.give(&u, action{kind: actLost, who: uint8(i), about: uint8(o), env: true})
		x.wrong = wrong
	}
	x.catchUp(&t, client)
	x.reply(&t, i, o, ok)
	x.give(&t, action{
		kind: actWrites, who: uint8(i), about: uint8(o), yes: ok, env: o == opT8 || o == opT7 || o == opT12 || o == opT13,
	})
	if s.lost > 0 && o != opEnsure && o != opUndo {
		u := *s
		u.lost--
		x.cutOff(&u, i, o)
		x.give(&u, action{kind: actLostUndone, who: uint8(i), about: uint8(o), env: true})
	}
}

// cutOff leaves i not knowing what became of its transaction.
//
//go:norace
func (x *explorer) cutOff(t *state, i int, o op) {
	l := &t.locals[i]
	switch o {
	case opShut:
		if l.pc == looked {
			*l = local{pc: unsureCreate, epoch: l.epoch}
		} else {
			*l = local{pc: unsureWait, flags: l.flags & (rewrote | knocked), seen: l.seen, early: l.early, out: l.out}
		}
	case opT1, opT1Beside, opT2, opT14, opT15, opT16, opT18:
		*l = local{pc: unsureCreate, epoch: l.epoch}
	case opT4, opT5, opT5Bare:
		*l = local{pc: unsureLeave, modes: l.modes & (1 << i), token: l.token}
	case opT8, opUndo:
		*l = local{pc: undoes}
	case opT10:
		*l = local{pc: unsureHold, modes: l.modes & (1 << i), token: l.token}
	case opT17:
		*l = local{pc: unsurePass, epoch: l.epoch}
	case opT12:
		*l = local{pc: unsureMove}
	case opT12Leave:
		*l = local{pc: movesIn}
	default:
		*l = local{pc: unsureWait, flags: l.flags & (rewrote | knocked), seen: l.seen, early: l.early, out: l.out}
	}
}

// afterLate: the library notices that a request was answered under another
// session.
//
//go:norace
func (x *explorer) afterLate(t *state, i int, o op, ok bool) {
	creates := o == opT1 || o == opT1Beside || o == opT2 || o == opT18 || o >= opT14 && o <= opT16
	t.locals[i] = local{pc: ended}
	if creates && ok && x.on(LateUndone) {
		t.locals[i] = local{pc: undoes}
	}
}

// reconnect is what happens after a lost reply: sync, then reads decide.
//
//go:norace
func (x *explorer) reconnect(s *state, i int) {
	t := *s
	client := x.c.Requests[i].Client
	if x.on(SyncAfterLoss) {
		x.catchUp(&t, client)
	}
	h := x.view(&t, i)
	l := &t.locals[i]
	found := h.nodes[i].there()
	switch l.pc {
	case unsureCreate:
		switch {
		case found:
			*l = local{pc: joined}
		case t.order[i] != 0:
			*l = local{pc: ended} // it was created, though this server does not show it: a new attempt has another name
		case x.c.Requests[i].Role != Queues:
			*l = local{pc: seeksG, epoch: h.epoch}
		default:
			*l = local{pc: fresh, epoch: h.epoch}
		}
	case unsureWait:
		l.pc = joined
	case unsureMove:
		k := x.c.Requests[i].Becomes
		switch {
		case found:
			*l = local{pc: joined}
		case h.nodes[k].there():
			*l = local{pc: ended}
			t.locals[k] = local{pc: joined}
		default:
			*l = local{pc: ended}
			t.locals[k] = local{pc: ended}
		}
	case unsureHold:
		if l.pc = sharesG; !found {
			*l = local{pc: ended}
		}
	case unsurePass:
		x.passAgain(l, h, i)
	case unsureLeave:
		if !found {
			*l = local{pc: ended}
		} else {
			x.letGo(l, i)
		}
	default:
	}
	x.give(&t, action{kind: actReconnects, who: uint8(i)})
}
