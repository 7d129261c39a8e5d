package model

// handOver is T4.
//
//go:norace
func (x *explorer) handOver(t *state, h *snapshot, i int) bool {
	l := &t.locals[i]
	together := x.together(l, i)
	heirs := x.heirs(t, i)
	if !x.own(h, i, OwnNodeInT4) || together && x.on(x.versionInT4(i)) && h.v != l.v {
		return false
	}
	for s := heirs; s != 0; s &= s - 1 {
		j := lowest(s)
		n := h.nodes[j]
		if !n.there() || x.on(HeirVersion) && n.version != l.versions[j] {
			return false
		}
		if n.version != l.versions[j] && n.bits&revised != 0 {
			x.fail("%s is granted what it asked for before", j)
		}
	}
	h.nodes[i] = node{}
	t.spent |= 1 << i & x.sought
	h.g, h.d, h.m, h.k, h.open = heirs, heirs&x.delaying, 0, 0, 0
	if together {
		h.g |= dead(l)
		h.d |= dead(l)
		h.k = dead(l) & x.noted()
	}
	if !x.on(DelayWithHeir) {
		h.d &^= heirs
	}
	h.v++
	for s := heirs; s != 0; s &= s - 1 {
		j := lowest(s)
		if x.on(HandOverMarksNode) {
			h.nodes[j].version++
		}
		x.grant(t, h, j)
		x.several = true
	}
	x.several = false
	return true
}

// takeOver is T7. Where a delay is due it only deletes.
//
//go:norace
func (x *explorer) takeOver(t *state, h *snapshot, i int) bool {
	l, me := &t.locals[i], uint8(1)<<i
	rivals := x.rivals(l, i)
	if !x.own(h, i, OwnNodeInT7) || h.nodes[i].there() && h.nodes[i].version != l.versions[i] ||
		x.on(VersionInT7) && h.v != l.v {
		return false
	}
	for s := rivals; s != 0; s &= s - 1 {
		if !h.nodes[lowest(s)].there() {
			return false
		}
	}
	for s := rivals; s != 0; s &= s - 1 {
		j := lowest(s)
		if h.nodes[j].mail&me == 0 {
			x.fail("%s takes the lock from a holder that was not preempted", i)
		}
		x.remove(t, h, j)
		t.evicted |= 1 << j
		x.takes(t, j)
	}
	rest := l.list & l.g &^ rivals
	due := (rivals | dead(l)) & l.d &^ l.out
	if x.on(DelayKeptByT7) {
		rest |= due
	}
	if due != 0 && x.on(DelayBeforeT7) {
		x.name(h, rest, 0)
		h.m |= due
		h.k |= due & x.noted()
		return true
	}
	if x.on(DelayKeptByT7) {
		rest &^= due
	}
	x.name(h, rest|me, me)
	x.touch(h, i, T7WritesOwnNode)
	x.grant(t, h, i)
	return true
}
