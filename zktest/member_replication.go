package zktest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// leave ends the member's part in a term, and with it the connections of its
// clients.
func (m *Member) leave() {
	if t := m.term; t != nil {
		m.term = nil
		for _, l := range slices.Clone(t.links) {
			l.leaderCloses()
		}
	}
	if l := m.link; l != nil {
		m.link = nil
		l.learnerCloses()
	}
	clear(m.touches)
	m.hangUpOnClients()
}

func (m *Member) hangUpOnClients() {
	byAge := func(a, b *conn) int { return cmp.Compare(a.gate.number, b.gate.number) }
	for _, c := range slices.SortedFunc(maps.Keys(m.server.open), byAge) {
		c.waiting, c.early = nil, nil
		m.server.crash(c)
	}
}

// lost is called when a connection to the leader has ended.
func (m *Member) lost(l *peering) {
	if m.link != l {
		return
	}
	m.ensemble.tell("%s lost its leader %s", m.Name(), l.term.leader.Name())
	m.leave()
	m.ensemble.consider()
}

// follow makes the member a learner of a leader: it takes the leader's state
// over, and what it had logged beyond is gone.
func (m *Member) follow(t *term) {
	m.ensemble.tell("%s follows %s", m.Name(), t.leader.Name())
	from := t.leader.server
	if m.server.leader.zxid != from.leader.zxid {
		m.server.leader = &replica{
			tree: from.leader.tree.Clone(), watches: tree.NewWatches[*conn](), zxid: from.leader.zxid,
		}
		for _, l := range m.server.listeners {
			l.replica = m.server.leader
		}
	}
	m.server.zxid = from.leader.zxid
	m.server.sessions = make(map[int64]*session, len(from.sessions))
	for id, x := range from.sessions {
		m.server.sessions[id] = &session{id: id, password: x.password, timeout: x.timeout}
	}
	m.logged, m.epoch, m.joining = nil, t.epoch, false
	m.link = newPeering(t, m)
	m.ensemble.links = append(m.ensemble.links, m.link)
	t.links = append(t.links, m.link)
	for _, p := range t.outstanding {
		t.propose(m.link, p)
	}
}

// touch notes that a client has said something.
func (m *Member) touch(session int64, timeout time.Duration) {
	if m.term != nil {
		m.term.touch(session, timeout)
		return
	}
	m.touches[session] = timeout
}

// pinged answers a ping of the leader with all sessions that were touched since
// the last one.
func (m *Member) pinged(l *peering) {
	touched := m.touches
	m.touches = make(map[int64]time.Duration)
	l.toLeader(func() {
		for _, id := range slices.Sorted(maps.Keys(touched)) {
			l.term.touch(id, touched[id])
		}
	})
}

// log keeps a proposal and acknowledges it.
func (m *Member) log(l *peering, p *proposal) {
	m.logged = append(m.logged, p)
	l.toLeader(func() { l.term.acknowledged(m, p) })
}

// apply puts a transaction that is committed into effect, and answers whose
// request it was.
func (m *Member) apply(p *proposal) {
	if len(m.logged) > 0 && m.logged[0] == p {
		m.logged = m.logged[1:]
	}
	s := m.server
	r := s.leader
	for _, change := range p.changes {
		effect := r.tree.Apply(change, p.zxid, p.now)
		r.watches.Fire(&effect, tell)
	}
	r.zxid, s.zxid = p.zxid, p.zxid
	switch {
	case p.opens != nil:
		x := *p.opens
		s.sessions[x.id] = &x
		if m.term == nil {
			m.touches[x.id] = x.timeout // as LearnerSessionTracker.commitSession does
		}
	case p.closes != 0:
		m.end(p)
	}
	if p.origin == nil || p.origin.member != m {
		return
	}
	p.origin.executed(p)
}

// end forgets a session. Its connection goes, but for that which asked for it
// and has an answer to come.
func (m *Member) end(p *proposal) {
	x := m.server.sessions[p.closes]
	delete(m.server.sessions, p.closes)
	delete(m.touches, p.closes)
	if x == nil {
		return
	}
	x.over = true
	if c := x.conn; c != nil && (p.origin == nil || p.origin.conn != c) {
		c.waiting = nil
		m.server.drop(c)
	}
}

// writes tells whether an operation takes a transaction.
func writes(op zkwire.Op) bool {
	switch op {
	case zkwire.OpCreate, zkwire.OpCreate2, zkwire.OpCreateContainer, zkwire.OpCreateTTL, zkwire.OpDelete,
		zkwire.OpDeleteContainer, zkwire.OpSetData, zkwire.OpSetACL, zkwire.OpCheck, zkwire.OpMulti, zkwire.OpReconfig:
		return true
	}
	return false
}
