package model

// together reports whether others may hold beside i: it shares the lock, or has
// companions at any moment.
//
//go:norace
func (x *explorer) together(l *local, i int) bool {
	return x.c.Requests[i].Shared || l.modes&(1<<i) != 0 || x.holding&(1<<i) != 0 && x.on(CompanionLooks)
}

//go:norace
func (x *explorer) versionInT4(i int) Guard {
	if x.holding&(1<<i) != 0 {
		return VersionInT4OfCompanion
	}
	return VersionInT4
}

//go:norace
func (x *explorer) versionInT5(i int) Guard {
	if x.holding&(1<<i) != 0 {
		return VersionInT5OfCompanion
	}
	return CleanEndVersion
}

// noted are those that G may name for their delay alone. It matters only where
// a hold may be resumed.
//
//go:norace
func (x *explorer) noted() uint8 {
	if x.sought == 0 {
		return 0
	}
	return x.delaying
}

// noteOnly makes G name the dead that a grant keeps for their delay alone.
//
//go:norace
func (x *explorer) noteOnly(h *snapshot, l *local) { h.k = dead(l) & h.d & x.noted() }

// named are the holders that G was read to name, dead or alive.
//
//go:norace
func named(l *local) uint8 { return l.g &^ l.k }

// takes remembers that the hold of i was taken from it.
//
//go:norace
func (x *explorer) takes(t *state, i int) {
	t.taken |= (1<<i | x.mates[i]&t.ever) & (x.sought | x.holding)
}

// comesBy is the transaction of one that has looked for its hold.
//
//go:norace
func (x *explorer) comesBy(l *local, i int) op {
	r := x.c.Requests[i]
	switch {
	case l.of == 0:
		return opT16
	case r.Role == Adopts && int(l.of-1) == r.Of:
		return opT15
	}
	return opT14
}

// accompany is T14, T15 or T16.
//
//go:norace
//nolint:cyclop,funlen // T14, T15 and T16 share their guards
func (x *explorer) accompany(t *state, h *snapshot, i int, o op) bool {
	l, r, me := &t.locals[i], x.c.Requests[i], uint8(1)<<i
	m := r.Of
	if o != opT16 {
		m = int(l.of - 1)
	}
	version, mate, mateVersion, kept := VersionInT14, MateInT14, MateVersionInT14, DelayKeptByT14
	switch o {
	case opT15:
		version, mate, mateVersion, kept = VersionInT15, MateInT15, MateVersionInT15, DelayKeptByT15
	case opT16:
		version, kept = VersionInT16, DelayKeptByT16
	default:
	}
	switch n := &h.nodes[m]; {
	case x.on(version) && h.v != l.v:
		return false
	case o == opT16:
		if x.on(EpochInT16) && h.epoch != l.epoch {
			return false
		}
	case !n.there():
		if x.on(mate) {
			return false
		}
	case x.on(mateVersion) && n.version != l.versions[m]:
		return false
	}
	x.mayAccompany(t, h, i, m)

	// The dead of an exclusive hold stay in G: references name them.
	names, of, bit := named(l), uint8(1)<<r.Of, uint8(0)
	switch {
	case o == opT16 && !x.on(AloneInT16):
		names &^= l.list
	case o == opT16 && r.Blind && x.on(NewTokenNamesNone):
		names = 0
	case r.Shared || !x.on(DeadStayNamed) && o != opT16:
		names &= l.list
	}
	if r.Role == Adopts && x.on(AdoptedForgotten) {
		names &^= of
	}
	alive, notes := l.list, dead(l)
	mail, mode := h.nodes[m].mail, h.nodes[m].bits&shared
	if o == opT15 {
		bit = 1 << m
		alive &^= bit
		notes |= bit
		x.remove(t, h, m)
		t.evicted |= bit
	}
	if !x.on(kept) {
		notes = 0
	}
	own := me & x.delaying
	if !x.on(DelayOfCompanion) {
		own = 0
	}
	x.create(t, h, i, granted|mode)
	h.d = l.d&l.g&(alive|notes) | own
	h.g = names | h.d | me
	h.k = h.d &^ names &^ me & x.noted()
	h.m = (h.m | bit) & h.d &^ me
	h.v++
	x.joinHold(t, h, i, m, o)
	if r.Role != Joins && o != opT16 && mail&^h.nodes[i].mail != 0 {
		x.fail("%s comes to hold, and has forgotten the preemptor of its hold", i)
	}
	return true
}

// mayAccompany says what is wrong if i joins, adopts or resumes the hold of m.
//
//go:norace
func (x *explorer) mayAccompany(t *state, h *snapshot, i, m int) {
	r, mates := x.c.Requests[i], x.mates[i]
	mail := h.nodes[m].mail
	of := uint8(1) << r.Of
	switch {
	case t.dueAlone&^mates != 0, t.dueShared&^mates != 0 && !r.Shared:
		x.fail("%s is granted before the lock delay is over", i)
	case r.Role == Joins && t.tokens[m] != t.tokens[r.Of]:
		x.fail("%s joins another grant than its reference tells", i)
	case !r.Shared && t.tokens[m] != t.lastToken:
		x.fail("%s comes to hold by a token after which the lock has had another", i)
	case t.taken&(1<<m) != 0:
		x.fail("%s comes to hold what was taken from its hold", i)
	case r.Role == Adopts && t.adopted&of != 0:
		x.fail("%s takes a place that another has taken", i)
	case r.Role == Joins && mail != 0:
		x.fail("%s joins a hold that is preempted", i)
	}
	if r.Role == Adopts {
		t.adopted |= of
	}
}

// joinHold is what a grant means that is not a new one.
//
//go:norace
func (x *explorer) joinHold(t *state, h *snapshot, i, m int, o op) {
	l, me := &t.locals[i], uint8(1)<<i
	n := &h.nodes[i]
	if n.token = l.token; !x.on(TokenOfHold) {
		n.token = h.token()
	}
	t.ever |= me
	if t.tokens[i] = t.tokens[m]; o == opT16 && x.c.Requests[i].Blind {
		n.token = h.token()
		t.tokens[i], t.lastToken = n.token, n.token
	}
	if o != opT16 && t.leaseOver&(1<<m) != 0 {
		t.leaseOver |= me
	}
	if x.c.Requests[i].Role == Joins {
		return
	}
	mail := MailInT14
	if o == opT15 {
		mail = MailInT15
	}
	if x.on(mail) {
		n.mail = l.heard
	}
}
