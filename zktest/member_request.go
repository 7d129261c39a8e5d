package zktest

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A pending is a request of a member's client without an answer: the leader has
// to execute it, or an earlier one of the same client waits for that.
type pending struct {
	member  *Member
	conn    *conn
	ids     []zkwire.ID
	request zkwire.Request
	err     error // of reading it

	done   bool
	wrote  bool  // answer is that of a transaction
	answer reply // of a transaction, or why there is none
	moved  bool  // another member has the session
}

// receive takes a frame of a client.
func (m *Member) receive(c *conn, body []byte) {
	switch {
	case !m.serves():
		m.server.sever(c)
	case c.session != nil:
		m.request(c, body)
	case c.asked:
		c.early = append(c.early, body)
	default:
		m.connect(c, body)
	}
}

// connect has the leader create or revalidate the session of a connection.
func (m *Member) connect(c *conn, body []byte) {
	s := m.server
	s.count(c)
	r, err := zkwire.ParseConnect(body)
	if err != nil || r.LastZxid > s.leader.zxid {
		s.sever(c)
		return
	}
	c.asked = true
	timeout := min(max(time.Duration(r.Timeout)*time.Millisecond, s.opts.minTimeout), s.opts.maxTimeout)
	if r.Session == 0 {
		x := newIdentity(m.next, timeout)
		m.next++
		origin := &pending{member: m, conn: c, request: zkwire.Request{Op: zkwire.OpConnect}}
		m.toLeader(func(t *term) { t.create(origin, x) })
		return
	}
	if x := s.sessions[r.Session]; x != nil && x.conn != nil {
		x.conn.waiting = nil
		s.drop(x.conn) // even if the password is wrong
	}
	m.toLeader(func(t *term) {
		x := t.revalidate(m, r.Session, r.Password, timeout)
		t.toMember(m, func() { m.revalidated(c, x, r.Old) })
	})
}

// toLeader has something done at the leader, which is this member or at the
// other end of its link.
func (m *Member) toLeader(do func(*term)) {
	if t := m.term; t != nil {
		do(t)
		return
	}
	l := m.link
	l.toLeader(func() { do(l.term) })
}

// revalidated gets the leader's decision about a session; nil: it is over.
func (m *Member) revalidated(c *conn, x *session, old bool) {
	if c.gone {
		return
	}
	if x == nil {
		c.sent(zkwire.ConnectResponse{Password: make([]byte, 16), Old: old}.Append(nil))
		m.server.drop(c)
		return
	}
	mine := m.server.sessions[x.id]
	if mine == nil { // its creation is not committed: no client can know it
		m.server.sever(c)
		return
	}
	mine.timeout = x.timeout
	m.greet(c, mine, old)
}

// greet tells a client its session, and executes what it has sent since.
func (m *Member) greet(c *conn, x *session, old bool) {
	if other := x.conn; other != nil && other != c {
		other.waiting = nil
		m.server.drop(other)
	}
	c.session, x.conn = x, c
	c.sent(zkwire.ConnectResponse{
		Timeout: int32(x.timeout / time.Millisecond), Session: x.id, Password: x.password, Old: old,
	}.Append(nil))
	early := c.early
	c.early = nil
	for _, body := range early {
		if !c.gone {
			m.request(c, body)
		}
	}
}

// request executes a request, or has the leader do it.
func (m *Member) request(c *conn, body []byte) {
	s := m.server
	s.count(c)
	r, err := zkwire.ParseRequest(body)
	if err != nil && len(body) < 8 {
		s.sever(c)
		return
	}
	c.seen.last, c.seen.lastXid = r.Op, r.Xid
	if r.Op == zkwire.OpAuth {
		s.authenticate(c, &r, err)
		return
	}
	m.touch(c.session.id, c.session.timeout)
	p := &pending{member: m, conn: c, ids: slices.Clone(c.ids), request: r, err: err}
	c.waiting = append(c.waiting, p)
	switch {
	case r.Op == zkwire.OpCloseSession:
		m.toLeader(func(t *term) { t.close(c.session.id, p) })
	case writes(r.Op):
		m.toLeader(func(t *term) { t.write(p) })
	case r.Op == zkwire.OpSync && m.term == nil:
		m.toLeader(func(t *term) { t.sync(m, p) })
	default:
		p.done = true
		if t := m.term; t != nil && known(r.Op) {
			p.answer.code, p.moved = t.check(c.session.id, m)
		}
	}
	m.flush(c)
}

// flush answers what can be answered, in order.
func (m *Member) flush(c *conn) {
	for len(c.waiting) > 0 && c.waiting[0].done && !c.gone {
		p := c.waiting[0]
		c.waiting = c.waiting[1:]
		p.reply()
	}
}

// executed is called when the transaction of the request is applied.
func (p *pending) executed(t *proposal) {
	c := p.conn
	if c.gone {
		return
	}
	if t.opens != nil {
		p.member.greet(c, p.member.server.sessions[t.opens.id], false)
		return
	}
	p.done, p.wrote, p.answer, p.moved = true, true, t.answer, t.moved
	p.member.flush(c)
}

// synced is called when the leader has answered.
func (p *pending) synced() {
	p.done = true
	if !p.conn.gone {
		p.member.flush(p.conn)
	}
}

func (p *pending) reply() {
	c, s, r := p.conn, p.member.server, &p.request
	zxid := s.leader.zxid
	switch {
	case p.moved:
		s.drop(c)
	case r.Op == zkwire.OpCloseSession:
		s.answer(c, r.Xid, zxid, reply{})
		s.drop(c)
	case !known(r.Op):
		s.answer(c, r.Xid, -1, failed(zkwire.Unimplemented))
		s.drop(c)
	default:
		answer := p.answer
		if r.Op == zkwire.OpPing {
			r.Xid = zkwire.XidPing
		}
		if !p.wrote && answer.code == zkwire.OK {
			answer = c.read(r, p.err, tree.Caller{Session: c.session.id, IDs: p.ids})
		}
		if !answer.silent {
			s.answer(c, r.Xid, zxid, answer)
		}
	}
}
