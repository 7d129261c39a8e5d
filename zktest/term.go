package zktest

import (
	"cmp"
	"crypto/rand"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A term is the time of a member as the leader.
type term struct {
	leader *Member
	epoch  int64
	zxid   int64 // the last that was given to a transaction
	links  []*peering

	head        *tree.Tree // with all that is proposed
	outstanding []*proposal

	tick    int64
	skip    bool // this half of a tick
	loopDue bool // it was time for loop while the member was stopped

	tracked  map[int64]*tracked
	expiryAt time.Duration // by the leader's clock; 0: not on the agenda
}

// A proposal is a transaction that the leader has made of a request.
type proposal struct {
	transaction
	opens  *session
	closes int64
	origin *pending // the request; nil: the leader's own
	answer reply
	moved  bool // refused: another member has the session

	acks  int      // voting members that have logged it, in bits
	syncs []func() // to be answered when it is committed
}

// A tracked is a session as the leader knows it.
type tracked struct {
	session *session
	expires time.Duration // by the leader's clock, at a whole tick
	closing bool
	owner   *Member // whose client it is
}

func newIdentity(id int64, timeout time.Duration) *session {
	password := make([]byte, 16)
	_, _ = rand.Read(password) // never fails
	return &session{id: id, password: password, timeout: timeout}
}

// newTerm begins a term. All sessions have their whole timeout.
func newTerm(leader *Member, epoch int64) *term {
	e := leader.ensemble
	t := &term{
		leader: leader, epoch: epoch, zxid: epoch << 32, skip: true,
		head: leader.server.leader.tree.Clone(), tracked: make(map[int64]*tracked),
	}
	leader.term, leader.epoch = t, epoch
	for id, x := range leader.server.sessions {
		t.tracked[id] = &tracked{session: &session{id: id, password: x.password, timeout: x.timeout}}
		t.touch(id, x.timeout)
	}
	e.schedule(time.Now().Add(e.opts.tick/2), t.loop)
	e.schedule(time.Now().Add(e.opts.sweep), t.sweep)
	return t
}

// loop is done twice a tick: once a tick the leader counts whom it has heard
// of, and each time it pings.
func (t *term) loop() {
	m := t.leader
	e := m.ensemble
	if m.term != t || e.closed {
		return
	}
	if t.loopDue = m.stopped; t.loopDue {
		return // see Resume
	}
	if !t.skip {
		t.tick++
		if !t.inSync() {
			e.tell("%s steps down", m.Name())
			m.leave()
			e.consider()
			return
		}
	}
	t.skip = !t.skip
	for _, l := range t.links {
		l.toLearner(func() { l.learner.pinged(l) })
	}
	e.schedule(time.Now().Add(e.opts.tick/2), t.loop)
}

// inSync tells whether a majority has been heard of lately.
func (t *term) inSync() bool {
	n := 1
	for _, l := range t.links {
		if !l.learner.observes && t.tick <= l.tickDeadline {
			n++
		}
	}
	return t.leader.ensemble.majority(n)
}

func (t *term) forget(l *peering) {
	t.links = slices.DeleteFunc(t.links, func(other *peering) bool { return other == l })
}

// toMember has something done at a member: the leader, or a learner.
func (t *term) toMember(m *Member, do func()) {
	if m == t.leader {
		do()
		return
	}
	for _, l := range t.links {
		if l.learner == m {
			l.toLearner(do)
		}
	}
}

// --- sessions ------------------------------------------------------------------

// touch gives a session its whole timeout, rounded up to a tick.
func (t *term) touch(id int64, timeout time.Duration) {
	x := t.tracked[id]
	if x == nil || x.closing || t.leader.term != t {
		return
	}
	e := t.leader.ensemble
	counted := timeout - time.Duration(float64(timeout)*e.opts.ensemble.drift)
	x.expires = (t.leader.elapsed() + counted).Truncate(e.opts.tick) + e.opts.tick
	t.armExpiry(x.expires)
	if e.latest() == t {
		e.clocks[id] = &SessionClock{
			ID: id, Timeout: timeout, Leader: t.leader.Name(),
			Touched: time.Now(), Expires: t.leader.instant(x.expires),
		}
	}
}

func (t *term) armExpiry(at time.Duration) {
	if t.expiryAt != 0 && t.expiryAt <= at {
		return
	}
	t.expiryAt = at
	t.leader.ensemble.schedule(t.leader.instant(at), t.expire)
}

// expire ends the sessions whose time is over.
func (t *term) expire() {
	m := t.leader
	if m.term != t || m.stopped {
		return // see Resume
	}
	now := m.elapsed()
	var over []*tracked
	next := time.Duration(0)
	for _, x := range t.tracked {
		switch {
		case x.closing:
		case x.expires <= now:
			over = append(over, x)
		case next == 0 || x.expires < next:
			next = x.expires
		}
	}
	slices.SortFunc(over, func(a, b *tracked) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.session.id, b.session.id))
	})
	for _, x := range over {
		m.ensemble.tell("%s expires session %#x", m.Name(), x.session.id)
		t.close(x.session.id, nil)
	}
	if t.expiryAt <= now {
		t.expiryAt = 0
	}
	if next != 0 {
		t.armExpiry(next)
	}
}

// create begins a session of a member's client.
func (t *term) create(origin *pending, x *session) {
	t.tracked[x.id] = &tracked{session: x, owner: origin.member}
	t.touch(x.id, x.timeout)
	t.submit(&proposal{transaction: t.next(), opens: x, origin: origin})
}

// revalidate touches a session that a client of a member comes back with;
// nil: there is none.
func (t *term) revalidate(m *Member, id int64, password []byte, timeout time.Duration) *session {
	x := t.tracked[id]
	if x == nil || x.closing || !x.session.knows(password) {
		return nil
	}
	x.session.timeout, x.owner = timeout, m
	t.touch(id, timeout)
	return x.session
}

// check tells whether a session lives and is that of a member's client.
func (t *term) check(id int64, m *Member) (code zkwire.Code, moved bool) {
	x := t.tracked[id]
	switch {
	case x == nil || x.closing:
		return zkwire.SessionExpired, false
	case x.owner == nil:
		x.owner = m
	}
	return zkwire.OK, x.owner != m
}

// --- requests ------------------------------------------------------------------

func (t *term) next() transaction {
	t.zxid++
	return transaction{zxid: t.zxid, now: t.leader.server.clock.now()}
}

// write makes a transaction of a request, whether it succeeds or not.
func (t *term) write(p *pending) {
	if t.leader.term != t {
		return
	}
	r := p.request
	switch {
	case r.Op == zkwire.OpDeleteContainer:
		r = zkwire.Request{Xid: r.Xid, Op: zkwire.OpDelete} // for the leader itself: takes no client's path
	case p.err != nil:
		r = zkwire.Request{Xid: r.Xid, Op: zkwire.OpError} // takes its transaction all the same
	}
	session := p.conn.session.id
	code, moved := t.check(session, p.member)
	x := &proposal{transaction: t.next(), origin: p, moved: moved}
	switch {
	case moved:
	case code == zkwire.OK && tripsOver(&r):
		p.wrote, p.answer = true, brokenOff(nil)
		t.toMember(p.member, p.synced)
		return
	default:
		by := tree.Caller{Session: session, IDs: p.ids, Over: code != zkwire.OK}
		_, x.answer = execute(t.head, &r, by, &x.transaction)
	}
	t.submit(x)
}

// sync answers behind all that is proposed, without asking other servers.
func (t *term) sync(m *Member, p *pending) {
	if t.leader.term != t {
		return
	}
	answer := func() { t.toMember(m, p.synced) }
	if n := len(t.outstanding); n > 0 {
		t.outstanding[n-1].syncs = append(t.outstanding[n-1].syncs, answer)
		return
	}
	answer()
}

// close ends a session: for its client, or because its time is over.
func (t *term) close(id int64, origin *pending) {
	if t.leader.term != t {
		return
	}
	if x := t.tracked[id]; x != nil {
		x.closing = true
	}
	p := &proposal{transaction: t.next(), closes: id, origin: origin}
	deleteEphemerals(t.head, id, &p.transaction)
	t.submit(p)
}

// sweep deletes empty containers and nodes whose time to live is over.
func (t *term) sweep() {
	m := t.leader
	if m.term != t || m.ensemble.closed {
		return
	}
	if !m.stopped {
		for _, path := range t.head.Expired(m.server.clock.now()) {
			p := &proposal{transaction: t.next()}
			r := zkwire.Request{Op: zkwire.OpDeleteContainer, Path: path}
			_, p.answer = execute(t.head, &r, tree.Caller{}, &p.transaction)
			t.submit(p)
		}
	}
	m.ensemble.schedule(time.Now().Add(m.ensemble.opts.sweep), t.sweep)
}

// submit proposes a transaction to all.
func (t *term) submit(p *proposal) {
	t.outstanding = append(t.outstanding, p)
	t.leader.logged = append(t.leader.logged, p)
	for _, l := range t.links {
		t.propose(l, p)
	}
	t.acknowledged(t.leader, p)
}

// propose sends a proposal to a follower. An observer gets the transaction once
// it is committed.
func (t *term) propose(l *peering, p *proposal) {
	if !l.learner.observes {
		l.toLearner(func() { l.learner.log(l, p) })
	}
}

// acknowledged is called when a voting member has logged a proposal.
func (t *term) acknowledged(by *Member, p *proposal) {
	if t.leader.term != t {
		return
	}
	p.acks |= 1 << by.number
	for len(t.outstanding) > 0 && t.leader.ensemble.majority(bits(t.outstanding[0].acks)) {
		committed := t.outstanding[0]
		t.outstanding = t.outstanding[1:]
		t.commit(committed)
	}
}

func (t *term) commit(p *proposal) {
	e := t.leader.ensemble
	if p.closes != 0 {
		delete(t.tracked, p.closes)
		if c := e.clocks[p.closes]; c != nil && c.Ended.IsZero() {
			c.Ended = time.Now()
		}
	}
	t.leader.apply(p)
	for _, l := range slices.Clone(t.links) {
		l.toLearner(func() { l.learner.apply(p) })
	}
	for _, answer := range p.syncs {
		answer()
	}
}

func bits(set int) int {
	n := 0
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}
