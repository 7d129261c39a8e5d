package model

// arriveSeeking begins a request with a reference, which came to it past the
// servers: its own may not have heard of what the reference names.
//
//go:norace
func (x *explorer) arriveSeeking(s *state, i int) {
	r := x.c.Requests[i]
	if s.order[r.Of] == 0 || r.Role != Adopts && s.ever&(1<<r.Of) == 0 {
		return // there is no reference yet
	}
	t := *s
	if x.on(SyncBeforeSeeking) {
		x.catchUp(&t, r.Client)
	}
	t.locals[i] = local{pc: seeksG, epoch: x.view(&t, i).epoch}
	x.give(&t, action{kind: actSeeks, who: uint8(i), env: true})
}

// seeker makes the steps of one that looks for its hold.
//
//go:norace
func (x *explorer) seeker(s *state, i int) {
	l, h := &s.locals[i], x.view(s, i)
	t := *s
	n := &t.locals[i]
	g, list := action{kind: actReadsG, who: uint8(i)}, action{kind: actLists, who: uint8(i)}
	switch l.pc {
	case seeksG:
		n.pc = seeksList
		if !x.on(VersionBeforeList) {
			n.list = h.list()
			x.give(&t, list)
			return
		}
		n.v, n.g, n.d, n.k, n.over = h.v, h.g, h.d, h.k, x.over(s, h)
		x.give(&t, g)
	case seeksList:
		n.pc = seeksNode
		if !x.on(VersionBeforeList) {
			n.v, n.g, n.d, n.k, n.over = h.v, h.g, h.d, h.k, x.over(s, h)
			x.give(&t, g)
			return
		}
		if n.list = h.list(); x.on(SeekingSameVersion) && h.v != l.v {
			*n = local{pc: seeksG, epoch: l.epoch}
		}
		x.give(&t, list)
	case seeksNode:
		x.findCompanion(s, i)
	case seeks:
		x.write(s, i, x.pending(s, i))
	case stays:
		if l.flags&poked != 0 {
			*n = local{pc: seeksG, epoch: l.epoch}
			x.give(&t, action{kind: actWoken, who: uint8(i)})
		}
	default:
	}
}

// findCompanion looks at the node of the companion that a request finds, or
// ends.
//
//go:norace
//nolint:cyclop // one case for each thing that it can find
func (x *explorer) findCompanion(s *state, i int) {
	l, r, of := &s.locals[i], x.c.Requests[i], uint8(1)<<x.c.Requests[i].Of
	t := *s
	n := &t.locals[i]
	alive := l.list & named(l)
	m := r.Of
	companions := alive & x.mates[i]
	if x.on(TokenOfReference) {
		companions &= x.companions(s, r.Of) | of
	}
	switch {
	case l.list&of != 0 && (alive&of != 0 || r.Role == Adopts):
	case r.Role == Adopts && named(l)&of == 0 && (x.on(NamedInT16) || alive != 0):
		m = -1
	case companions != 0 && (r.Role != Adopts || x.on(AloneInT16)):
		m = lowest(companions)
	case r.Role == Adopts && !r.Shared && (alive == 0 || !x.on(AloneInT16)):
		n.pc, n.of, n.token = seeks, 0, s.tokens[r.Of]
		if !x.on(EpochBeforeVersion) {
			n.epoch = x.view(s, i).epoch
		}
		x.give(&t, action{kind: actLooksMate, who: uint8(i)})
		return
	default:
		m = -1
	}
	if m < 0 {
		*n = local{pc: ended}
		if r.Role == Adopts {
			x.mayGiveUp(s, i)
		}
		x.give(&t, action{kind: actNotThere, who: uint8(i)})
		return
	}
	own := x.view(s, i).nodes[m]
	kind := actLooksMate
	switch {
	case !own.there(), !own.granted() && alive&(1<<m) != 0, own.granted() && alive&(1<<m) == 0:
		*n = local{pc: seeksG, epoch: l.epoch}
	case !own.granted():
		*n = local{pc: stays, epoch: l.epoch, watch: of}
		kind = actStays
	case r.Role == Joins && own.mail != 0 && x.on(NoJoinWhenAsked):
		*n = local{pc: ended}
		kind = actRefused
	default:
		n.pc, n.of, n.versions[m], n.token, n.heard = seeks, uint8(m)+1, own.version, own.token, own.mail
	}
	x.give(&t, action{kind: kind, who: uint8(i)})
}

// mayGiveUp says what is wrong if i gets a NotThereError.
//
//go:norace
func (x *explorer) mayGiveUp(s *state, i int) {
	r, h := x.c.Requests[i], s.head()
	of := uint8(1) << r.Of
	if r.Shared || (s.adopted|s.spent|s.taken)&of != 0 {
		return
	}
	alive := h.list() & h.g
	for j := range x.c.Requests {
		if x.mates[i]&alive&(1<<j) != 0 && s.ever&of != 0 && s.tokens[j] == s.tokens[r.Of] {
			x.fail("%s gets a NotThereError, and a companion holds it", i)
		}
	}
	switch {
	case h.nodes[r.Of].there():
		x.fail("%s gets a NotThereError, and the one that it adopts is there", i)
	case h.g&^h.k&of != 0 && alive == 0 && s.tokens[r.Of] == s.lastToken:
		x.fail("%s gets a NotThereError, and it may be resumed", i)
	}
}
