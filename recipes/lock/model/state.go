package model

const maxLag = 2

// A node is a contender's, as a server shows it.
type node struct {
	bits    uint8
	version uint8
	mail    uint8 // its preemptors
	token   uint8
}

const (
	there uint8 = 1 << iota
	granted
	shared
	revised
)

//go:norace
func (n node) there() bool { return n.bits&there != 0 }

//go:norace
func (n node) granted() bool { return n.bits&granted != 0 }

//go:norace
func (n node) shared() bool { return n.bits&shared != 0 }

// A snapshot is what a server shows at one moment. Sets of requests are bits.
type snapshot struct {
	lives uint8 // 1: L is there
	v     uint8
	g     uint8 // G, and who walked in
	d     uint8 // those in G whose delay it names
	m     uint8 // those of them whose end was noticed
	k     uint8 // those in G that it names for their delay alone: they are no holders any more
	open  uint8 // 1: readers may walk in
	epoch uint8
	nodes [maxRequests]node
}

// list is who is there.
//
//go:norace
func (h *snapshot) list() (list uint8) {
	for i := range h.nodes {
		list |= (h.nodes[i].bits & there) << i
	}
	return list
}

// token is that of a grant that made this snapshot: it grows with every change
// of L, as a zxid does.
//
//go:norace
func (h *snapshot) token() uint8 { return h.epoch<<5 | h.v }

// Where a request is.
type place uint8

const (
	idle         place = iota
	unborn             // what a request becomes if it moves
	fresh              // knows the epoch
	wantsEpoch         // without a guard: knows all but the epoch
	looked             // knows G, v and the list, of one version
	mustJoin           // its T1 failed
	seeksG             // has a reference, and to read G
	seeksList          // has to list
	seeksNode          // has to read the node of a companion
	seeks              // has read all
	joined             // has to look at its own node
	wantsG             // has to read G
	wantsList          // has to list
	scoutsG            // reads all at once: has read G
	scoutsList         // has listed
	scoutsBoth         // has read G and listed
	scoutsOwn          // has looked at its own node, and listed
	decides            // has read G and the list
	leads              // is first, and has read the holders
	leadsReady         // has preempted those that it may
	waits              // until something happens
	stays              // until the one that it adopts is granted
	marks              // has found a lock delay, and not noted it in L
	knocksG            // has to read G to knock
	knocks             // has read it
	holdsNew           // holds, and has to look at its own node
	holds              // and watches it
	leavesG            // lets go: has to read G
	leavesList         // has to list
	leaves             // has read both
	leavesUnseen       // a member of a hold: without a look
	sharesG            // wants to share: has to read G
	sharesNode         // has to read its own node
	shares             // has read both
	passes             // has released, and makes its node the next one's of its line
	movesIn            // without a guard: has created what it becomes
	unsureCreate       // a reply was lost
	unsureWait
	unsureMove
	unsureHold
	unsureLeave
	unsurePass
	undoes // has to delete what was created late
	ended
)

const (
	told  uint8 = 1 << iota // its own node was written
	gone                    // or deleted
	poked                   // a watch on others has fired
	first                   // was first at the last look
	watchesL
	rewrote // the own node, itself
	knocked
	sole // its grant named no other
)

// A local is what a request knows.
type local struct {
	pc    place
	flags uint8
	late  uint8 // 1: its session is over, and its request still under way
	v, g  uint8 // as read
	d, k  uint8
	list  uint8
	of    uint8 // the companion beside or after which it comes to hold, and 1
	epoch uint8
	mine  uint8 // v of its own grant, if that was a sole one
	modes uint8 // holders that were read as shared
	mail  uint8 // holders that were read to have its note
	watch uint8 // nodes that it watches
	seen  uint8 // the dead whose delay it waits out
	early uint8 // those of them that were alive
	over  uint8 // whose delay is over, as L tells
	open  uint8
	out   uint8 // whose delay is over
	token uint8
	heard uint8 // which requests preempt it, as far as it knows

	versions [maxRequests]uint8
	mails    [maxRequests]uint8 // used without MailboxVersion alone
}

// agent is an operator, or the removal of idle locks.
type agent struct {
	pc       place
	v, g, d  uint8
	list     uint8
	versions [maxRequests]uint8
}

// state is all there is. It has no padding and no pointers.
type state struct {
	past    [maxLag + 1]snapshot // the last committed one comes first
	locals  [maxRequests]local
	lag     [maxRequests]uint8 // of the server of each client
	order   [maxRequests]uint8 // of creation
	created uint8

	remembered       uint8 // clients that remember a version
	version, ofEpoch [maxRequests]uint8

	evicted   uint8 // by T7, break or administrator: may believe on
	ever      uint8 // was granted
	walkers   uint8 // walked in: their names say so
	tokens    [maxRequests]uint8
	lastToken uint8
	leaseOver uint8
	unclean   uint8              // ended so, with a delay
	adopted   uint8              // whose place another has taken
	spent     uint8              // have let go
	turns     [maxRequests]uint8 // how often its node was passed on
	taken     uint8              // whose hold was taken or broken
	tooEarly  uint8              // were marked as ended while they lived
	dueAlone  uint8              // of those: the delay goes on; exclusive
	dueShared uint8              // shared

	expiries, lost, late, leases, breaks, deletes, removals, lapses uint8

	operator, remover agent
}

//go:norace
func (s *state) head() *snapshot { return &s.past[0] }

// step makes a client's server catch up by one transaction, and tells its
// requests what they watch.
//
//go:norace
func (x *explorer) step(s *state, client int) {
	k := s.lag[client]
	before, now := &s.past[k], &s.past[k-1]
	s.lag[client]--
	for i := range x.c.Requests {
		l := &s.locals[i]
		if x.c.Requests[i].Client != client || l.pc < joined || l.pc >= ended || l.late != 0 {
			continue
		}
		for w := l.watch; w != 0; w &= w - 1 {
			j := lowest(w)
			b, n := before.nodes[j], now.nodes[j]
			if b.bits&there == n.bits&there && b.version == n.version {
				continue
			}
			l.watch &^= 1 << j
			switch {
			case j != i:
				l.flags |= poked
			case !n.there():
				l.flags |= gone
			case l.flags&rewrote != 0 && x.on(RevisedReads):
				l.flags |= poked
			default:
				l.flags |= told
			}
		}
		if l.flags&watchesL != 0 && (before.v != now.v || before.epoch != now.epoch) {
			l.flags = l.flags&^watchesL | poked
		}
	}
}

// catchUp makes a client's server show the last transaction.
//
//go:norace
func (x *explorer) catchUp(s *state, client int) {
	for s.lag[client] > 0 {
		x.step(s, client)
	}
}

// commit makes h the last snapshot.
//
//go:norace
func (x *explorer) commit(s *state, h *snapshot) {
	for c := range s.lag {
		if s.lag[c] == maxLag {
			x.step(s, c)
		}
	}
	s.past[2], s.past[1], s.past[0] = s.past[1], s.past[0], *h
	for c := range s.lag {
		s.lag[c]++
		for int(s.lag[c]) > x.c.Lag {
			x.step(s, c)
		}
	}
}

// tidy forgets what cannot matter any more, so that equal states look equal.
//
//go:norace
func (x *explorer) tidy(s *state) {
	var busy [maxRequests]bool
	for i := range x.c.Requests {
		if s.locals[i].pc == idle && x.c.Requests[i].Role != Queues && !x.on(SyncBeforeSeeking) {
			busy[x.c.Requests[i].Client] = true
		}
		if pc := s.locals[i].pc; pc > unborn && pc < ended && s.locals[i].late == 0 {
			busy[x.c.Requests[i].Client] = true
		}
	}
	far := uint8(0)
	for c := range s.lag {
		if !busy[c] {
			s.lag[c] = 0
		}
		far = max(far, s.lag[c])
	}
	for k := far + 1; k <= maxLag; k++ {
		s.past[k] = snapshot{}
	}
}

//go:norace
func lowest(set uint8) int {
	for i := range 8 {
		if set&(1<<i) != 0 {
			return i
		}
	}
	return -1
}
