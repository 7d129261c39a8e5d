package zkdiff

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// longSession outlives every pause that a run makes.
const longSession = 60 * time.Second

// side is one of the two servers with the clients that are connected to it.
type side struct {
	server
	timeout time.Duration // that new sessions ask for
	clients []*client
	ended   []session
	*translator
}

// client is a session and its connection, both of which may be missing.
type client struct {
	conn    *conn
	session session
	next    int32
	left    int64 // the zxid when it hung up
}

func newSide(of server, clients int) *side {
	s := &side{server: of, timeout: longSession, translator: newTranslator()}
	for range clients {
		s.clients = append(s.clients, &client{})
	}
	return s
}

func (s *side) close() {
	for _, c := range s.clients {
		if c.conn != nil {
			c.conn.Close()
		}
	}
}

// outcome is everything that a step has caused on one side.
type outcome struct {
	heard   [][]string // by client; the last one is the connection beside
	created []string   // names, as the server has chosen them
}

func (o *outcome) hear(on int, text string) { o.heard[on] = append(o.heard[on], text) }

// do takes a step and collects what comes of it on all connections.
func (s *side) do(step Step) outcome {
	beside := len(s.clients)
	o := outcome{heard: make([][]string, beside+1)}
	c := s.clients[step.On]
	if c.conn == nil && step.Do != Drop {
		if c.conn, c.session = s.connect(&o, step.On, c.session, s.zxid); c.conn == nil {
			// The session has ended meanwhile: go on with a new one.
			c.conn, c.session = s.connect(&o, step.On, session{}, 0)
		}
	}
	switch step.Do {
	case Drop:
		if c.conn != nil {
			c.conn.Close()
			c.conn, c.left = nil, s.zxid
		}
	case Resume:
		old := c.conn
		c.conn, c.session = s.connect(&o, beside, c.session, s.zxid)
		s.untilClosed(&o, step.On, old)
	case WrongPassword:
		s.visit(&o, greeting(session{c.session.id, []byte("0123456789abcdef")}, s.zxid, longSession))
	case Stale:
		if n := len(s.ended); n > 0 {
			s.visit(&o, greeting(s.ended[int(step.Back)%n], s.zxid, longSession))
		}
	case Unknown:
		s.visit(&o, greeting(session{0x1234567, make([]byte, 16)}, s.zxid, longSession))
	case Ahead:
		s.visit(&o, greeting(c.session, s.zxid+1<<20, longSession))
	case Greeting:
		s.visit(&o, step.Raw)
	case Bytes:
		c.conn.write(step.Raw)
		s.untilClosed(&o, step.On, c.conn)
		c.conn = nil
	default:
		s.request(&o, step)
	}
	s.barrier(&o)
	if step.Do == CloseSession {
		// Java deletes the session's nodes in the order of a hash set.
		for _, lines := range o.heard {
			sortEvents(lines)
		}
	}
	return o
}

// request sends the frame of a step and reads until its effects on the connection are complete.
func (s *side) request(o *outcome, step Step) {
	c := s.clients[step.On]
	c.next++
	xid := step.Do.xid(c.next)
	frame := step.frame(xid, s.lastHeard(c, step))
	if mayHangUp(step.Do) {
		// A ping would race with the server that hangs up after its reply.
		c.conn.send(frame)
		s.read(o, step.On, step.answered(), func(got int32) bool { return got != eventXid })
	} else {
		c.conn.send(frame, pingFrame())
		s.read(o, step.On, step.Do, func(got int32) bool { return got == pingXid })
	}
	if step.Do == CloseSession && c.conn != nil {
		s.untilClosed(o, step.On, c.conn)
		c.conn = nil
		s.ended = append(s.ended, c.session)
		c.session = session{}
	}
}

// lastHeard is the zxid that a client gives when it brings its watches back.
func (s *side) lastHeard(c *client, step Step) int64 {
	if step.Back < 0 {
		return c.left
	}
	return max(0, s.zxid-step.Back)
}

// mayHangUp tells whether a server may answer and then close the connection.
func mayHangUp(op Op) bool {
	return op == CloseSession || op == CreateSession || op == Auth || op == Frame || opNames[op] == ""
}

// read hears frames of a client until one is the last, or the connection ends.
func (s *side) read(o *outcome, on int, op Op, last func(xid int32) bool) {
	c := s.clients[on]
	for c.conn != nil {
		frame, err := c.conn.receive(patience)
		if err != nil {
			o.hear(on, err.Error())
			c.conn.Close()
			c.conn = nil
			return
		}
		text := s.frame(op, frame)
		o.hear(on, text)
		d := decoder{buf: frame}
		h := d.header()
		switch op {
		case Create, Create2, CreateTTL, CreateContainer:
			if h.xid > 0 && h.code == 0 {
				o.created = append(o.created, d.string())
			}
		default:
		}
		if hangsUp := h.xid != eventXid && (h.code == unimplemented || op == Auth && h.code == authFailed); hangsUp {
			// It does so in its own time.
			s.untilClosed(o, on, c.conn)
			c.conn = nil
			return
		}
		if last(h.xid) {
			return
		}
	}
}

// ping pings on one connection, and hears it until the answer.
func (s *side) ping(o *outcome, on int) {
	if c := s.clients[on]; c.conn != nil {
		c.conn.send(pingFrame())
		s.read(o, on, Ping, func(xid int32) bool { return xid == pingXid })
	}
}

// barrier pings on all connections: what a step has caused anywhere comes before the answers.
func (s *side) barrier(o *outcome) {
	for _, c := range s.clients {
		if c.conn != nil {
			c.conn.send(pingFrame())
		}
	}
	for i := range s.clients {
		s.read(o, i, Ping, func(xid int32) bool { return xid == pingXid })
	}
}

// connect opens a connection for a session, or for a new one. Both are nothing when the server refuses.
func (s *side) connect(o *outcome, on int, want session, zxid int64) (*conn, session) {
	c, err := s.dial()
	if err != nil {
		o.hear(on, "dial: "+err.Error())
		return nil, session{}
	}
	c.send(greeting(want, zxid, s.timeout))
	frame, err := c.receive(patience)
	if err != nil {
		o.hear(on, "greeting: "+err.Error())
		c.Close()
		return nil, session{}
	}
	text, got := s.welcome(frame)
	o.hear(on, text)
	if got.id == 0 {
		s.untilClosed(o, on, c)
		return nil, session{}
	}
	return c, got
}

// visit greets the server on a connection beside, and leaves nothing behind.
func (s *side) visit(o *outcome, first []byte) {
	beside := len(s.clients)
	c, err := s.dial()
	if err != nil {
		o.hear(beside, "dial: "+err.Error())
		return
	}
	c.send(first)
	frame, err := c.receive(patience)
	if err != nil {
		o.hear(beside, err.Error())
		c.Close()
		return
	}
	text, got := s.welcome(frame)
	o.hear(beside, text)
	if got.id != 0 {
		c.send(Step{Do: CloseSession}.frame(1, 0))
		s.ended = append(s.ended, got)
	}
	s.untilClosed(o, beside, c)
}

// untilClosed hears a connection out.
func (s *side) untilClosed(o *outcome, on int, c *conn) {
	defer c.Close()
	for {
		frame, err := c.receive(patience)
		if err != nil {
			o.hear(on, err.Error())
			return
		}
		o.hear(on, s.frame(CloseSession, frame))
	}
}

func sortEvents(lines []string) {
	isEvent := func(line string) bool { return strings.HasPrefix(line, "event ") }
	for i := 0; i < len(lines); i++ {
		from := i
		for i < len(lines) && isEvent(lines[i]) {
			i++
		}
		slices.Sort(lines[from:i])
	}
}

// differs tells where two outcomes are not the same, or "".
func (o outcome) differs(other outcome) string {
	var text strings.Builder
	for i := range o.heard {
		if slices.Equal(o.heard[i], other.heard[i]) {
			continue
		}
		where := fmt.Sprintf("session %d", i)
		if i == len(o.heard)-1 {
			where = "connection beside"
		}
		for j := range max(len(o.heard[i]), len(other.heard[i])) {
			a, b := at(o.heard[i], j), at(other.heard[i], j)
			if a == b {
				fmt.Fprintf(&text, "  %s   both: %s\n", where, a)
				continue
			}
			fmt.Fprintf(&text, "  %s   real: %s\n  %s   fake: %s\n", where, a, where, b)
		}
	}
	return text.String()
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
