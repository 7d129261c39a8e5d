package model

// An op is a transaction, all or nothing.
type op uint8

const (
	opNone op = iota
	opT1
	opT1Beside
	opT2
	opT3
	opT4
	opT5
	opT5Bare
	opT6
	opT7
	opT8
	opT10
	opT12
	opT12Leave
	opT13
	opT14
	opT15
	opT16
	opT17
	opT18
	opShut
	opKnock
	opMark
	opUndo
	opEnsure
)

var opNames = [...]string{
	"", "T1 fast acquire", "T1 beside others", "T2 join", "T3 self-grant", "T4 hand-over", "T5 release",
	"T5 release without a look", "T6 preempt", "T7 takeover", "T8 leave",
	"T10 downgrade", "T12 move", "the second half of T12", "T13 revise", "T14 join", "T15 adopt",
	"T16 resume", "T17 pass on", "T18 walk in", "the shutting of an open lock", "knock", "the noticing of an unclean end",
	"the undoing of a creation", "creation of L",
}

// own is the actor's node in its transaction.
//
//go:norace
func (x *explorer) own(h *snapshot, i int, g Guard) bool { return h.nodes[i].there() || !x.on(g) }

//go:norace
func (x *explorer) create(t *state, h *snapshot, i int, bits uint8) {
	t.created++
	t.order[i] = t.created
	if x.c.Requests[i].Shared {
		bits |= shared
	}
	h.nodes[i] = node{bits: bits | there}
}

// name makes G name these, with the delays that it names already and that of
// each new one.
//
//go:norace
func (x *explorer) name(h *snapshot, g, granted uint8) {
	h.g, h.d, h.open = g, h.d&g|granted&x.delaying, 0
	h.m &= h.d &^ granted
	h.k &= h.d &^ granted
	h.v++
}

// grant is what every grant means for i.
//
//go:norace
func (x *explorer) grant(t *state, h *snapshot, i int) {
	bit := uint8(1) << i
	n := &h.nodes[i]
	switch {
	case !n.there():
		x.fail("%s is granted and does not exist", i)
	case n.granted():
		x.fail("%s is granted twice", i)
	case x.twin[i] >= 0 && t.ever&(1<<x.twin[i]) != 0:
		x.fail("%s is granted, and what it was or became was granted, too", i)
	case t.dueAlone != 0, t.dueShared != 0 && !x.c.Requests[i].Shared:
		x.fail("%s is granted before the lock delay is over", i)
	case h.token() < t.lastToken, h.token() == t.lastToken && !x.several: // readers that one T4 grants have one token
		x.fail("%s gets a token that is no higher than the last one", i)
	}
	n.bits |= granted
	n.token = h.token()
	t.ever |= bit
	t.tokens[i], t.lastToken = n.token, n.token
}

// remove deletes the node of one whose end is not clean.
//
//go:norace
func (x *explorer) remove(t *state, h *snapshot, i int) {
	bit := uint8(1) << i
	if h.nodes[i].there() && h.g&bit != 0 && x.delaying&bit != 0 {
		t.unclean |= bit
		if h.nodes[i].shared() {
			t.dueShared |= bit
		} else {
			t.dueAlone |= bit
		}
	}
	h.nodes[i] = node{}
}

// transact carries a transaction out, or refuses it whole.
//
//go:norace
//nolint:cyclop,funlen // one case for each transaction
func (x *explorer) transact(t *state, h *snapshot, i int, o op) bool {
	l, me := &t.locals[i], uint8(1)<<i
	if h.lives == 0 && o != opEnsure {
		return false
	}
	switch o {
	case opEnsure:
		if h.lives == 0 {
			*h = snapshot{lives: 1, epoch: h.epoch}
		}
	case opT1:
		if x.on(EpochInT1) && h.epoch != l.epoch || x.on(VersionInT1) && h.v != l.v {
			return false
		}
		x.create(t, h, i, 0)
		x.name(h, me|x.keep(l, DelayInT1), me)
		x.noteOnly(h, l)
		x.grant(t, h, i)
	case opT1Beside:
		if x.on(EpochInT1) && h.epoch != l.epoch || x.on(VersionInT1Beside) && h.v != l.v {
			return false
		}
		x.create(t, h, i, 0)
		x.name(h, l.list&l.g|x.keep(l, DelayKeptBeside)|me, me)
		x.noteOnly(h, l)
		x.grant(t, h, i)
		if x.mayWalk(i) && h.d == 0 && (l.list&^x.sharing == 0 || !x.on(OpenBesideReaders)) {
			h.open = 1
		}
	case opT18:
		if x.on(EpochInT18) && h.epoch != l.epoch || x.on(VersionInT18) && h.v != l.v {
			return false
		}
		x.create(t, h, i, 0)
		h.g |= me
		t.walkers |= me
		x.several = true // zxids grow, versions of L do not
		x.grant(t, h, i)
		x.several = false
	case opShut:
		if x.on(EpochInShut) && h.epoch != l.epoch && !h.nodes[i].there() || h.v != l.v {
			return false
		}
		h.g, h.d, h.k, h.open = l.g|h.list()&t.walkers, l.d, l.k, 0
		h.v++
	case opT2:
		x.create(t, h, i, 0)
	case opT3:
		if !x.own(h, i, OwnNodeInT3) || h.nodes[i].there() && h.nodes[i].version != l.versions[i] ||
			x.on(VersionInT3) && h.v != l.v {
			return false
		}
		x.name(h, l.list&l.g|x.keep(l, DelayKeptByT3)&^x.foes(i)|me, me)
		x.noteOnly(h, l)
		x.touch(h, i, T3WritesOwnNode)
		x.grant(t, h, i)
	case opT4:
		return x.handOver(t, h, i)
	case opT5:
		if !h.nodes[i].there() {
			return false
		}
		if x.cleanly(i) {
			if x.together(l, i) {
				if x.on(x.versionInT5(i)) && h.v != l.v {
					return false
				}
				h.g, h.d, h.k, h.open = (l.g|h.list()&t.walkers)&^me, l.d&^me, l.k, 0
			} else {
				h.g, h.d = h.g&^me, h.d&^me
			}
			h.m &= h.d
			h.k &= h.d
			h.v++
		}
		h.nodes[i] = node{}
		t.spent |= me & x.sought
	case opT5Bare:
		if !h.nodes[i].there() {
			return false
		}
		h.nodes[i] = node{}
		t.spent |= me & x.sought
	case opT6:
		j := x.toAsk(t, i)
		n := &h.nodes[j]
		if !x.own(h, i, OwnNodeInT6) || !n.there() || x.on(MailboxVersion) && n.version != l.versions[j] {
			return false
		}
		if !h.nodes[i].there() {
			x.fail("%s preempts a holder, and does not exist", i)
		}
		if !x.on(MailboxVersion) { // what was read comes back
			n.mail = l.mails[j]
			if n.bits &^= shared; l.modes&(1<<j) != 0 {
				n.bits |= shared
			}
		}
		n.mail |= me
		n.version++
		if !x.on(TokenIsKept) {
			n.token = h.token() | 0x80
		}
	case opT7:
		return x.takeOver(t, h, i)
	case opT8:
		if !h.nodes[i].there() || x.delaying&me != 0 && x.on(LeaveVersion) && h.nodes[i].version != l.versions[i] {
			return false
		}
		h.nodes[i] = node{}
		t.spent |= me & x.sought
	case opT10:
		if !x.own(h, i, OwnNodeInT10) || h.nodes[i].there() && h.nodes[i].version != l.versions[i] ||
			x.on(VersionInT10) && h.v != l.v {
			return false
		}
		if h.nodes[i].there() {
			h.nodes[i].bits |= shared
			h.nodes[i].version++
		}
		h.g, h.d, h.k = l.g|h.list()&t.walkers, l.d, l.k
		h.v++
	case opT12:
		if !h.nodes[i].there() || x.on(MoveVersion) && h.nodes[i].version != l.versions[i] {
			return false
		}
		x.create(t, h, x.c.Requests[i].Becomes, 0)
		if x.on(MoveAtOnce) {
			h.nodes[i] = node{}
		}
	case opT12Leave, opUndo:
		if !h.nodes[i].there() {
			return false
		}
		if o == opUndo {
			x.remove(t, h, i)
		}
		h.nodes[i] = node{}
	case opT13:
		n := &h.nodes[i]
		l.flags |= rewrote // before its event can come
		if !n.there() || x.on(ReviseVersion) && n.version != l.versions[i] {
			return false
		}
		if n.granted() {
			n.token = h.token() | 0x80
		}
		n.bits = n.bits&^granted | revised
		n.version++
	case opKnock:
		if !x.own(h, i, OwnNodeInKnock) || h.v != l.v {
			return false
		}
		h.g, h.d, h.k = l.g|h.list()&t.walkers, l.d, l.k
		h.v++
	case opMark:
		if !x.own(h, i, OwnNodeInMark) || x.on(VersionInMark) && h.v != l.v {
			return false
		}
		ends := dead(l) &^ h.m
		t.tooEarly |= ends & h.list()
		h.g, h.d, h.k = l.g|h.list()&t.walkers, l.d, l.k
		h.m |= ends
		h.v++
	case opT14, opT15, opT16:
		return x.accompany(t, h, i, o)
	case opT17:
		return x.passOn(t, h, i)
	case opNone:
	}
	return true
}

// mayWalk reports whether i may hold without being named in G.
//
//go:norace
func (x *explorer) mayWalk(i int) bool {
	return x.c.Opens && x.c.Requests[i].Shared && (x.delaying|x.holding)&(1<<i) == 0
}

// touch is the grant's mark on the own node.
//
//go:norace
func (x *explorer) touch(h *snapshot, i int, g Guard) {
	if x.on(g) && h.nodes[i].there() {
		h.nodes[i].version++
		h.nodes[i].mail = 0
	}
}

// cleanly reports whether a release of i changes G.
//
//go:norace
func (x *explorer) cleanly(i int) bool { return (x.delaying|x.holding)&(1<<i) != 0 }

// foes are those of G that i may not hold beside, as G tells their modes.
//
//go:norace
func (x *explorer) foes(i int) uint8 {
	if x.c.Requests[i].Shared {
		return ^x.sharing
	}
	return 0xff
}

// rivals are the live holders that i may not hold beside, as it has read them.
//
//go:norace
func (x *explorer) rivals(l *local, i int) uint8 {
	alive := l.list & l.g &^ (1 << i)
	if x.c.Requests[i].Shared {
		alive &^= l.modes
	}
	return alive
}

// dead are those whose delay G names, and who are gone, unless that is over.
//
//go:norace
func dead(l *local) uint8 { return l.g & l.d &^ l.list &^ l.over }

// keep is what a grant keeps of the dead: those whose delay it has not waited
// out.
//
//go:norace
func (x *explorer) keep(l *local, g Guard) uint8 {
	if !x.on(g) {
		return 0
	}
	return dead(l) &^ l.out
}
