package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// maxUnread is how much a client may leave unread, in bytes, before it is cut
// off.
const maxUnread = 64 << 20

// A conn is a connection of a client. One goroutine reads its requests and has
// the server execute them; another one writes what there is to write.
type conn struct {
	server   *Server
	listener *Listener
	name     string   // of the dialer
	names    []string // that and the listener's, without empty ones
	nc       net.Conn
	gate     *gate
	out      *outbox

	// These belong to the server's lock.
	session *session
	ids     []zkwire.ID // who the client has shown to be
	gone    bool        // nothing of it counts any more
	seen    traffic

	// These are used in an ensemble.
	asked   bool       // the leader is asked for the session
	early   [][]byte   // what has come before its answer
	waiting []*pending // requests without an answer, in order
}

// traffic is what the four-letter words tell of a connection.
type traffic struct {
	received, sent int
	last           zkwire.Op
	lastXid        int32
	lastZxid       int64
}

// serve begins a connection, unless the server is stopped.
func (s *Server) serve(l *Listener, nc net.Conn, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.down {
		_ = nc.Close()
		return false
	}
	c := &conn{server: s, listener: l, name: name, nc: nc, ids: []zkwire.ID{{Scheme: "ip", Name: hostOf(nc)}}}
	c.out = newOutbox(nc, maxUnread)
	for _, n := range []string{l.name, name} {
		if n != "" {
			c.names = append(c.names, n)
		}
	}
	c.gate = s.faults.open(c.names, c.receive, c.out.put, c.finish)
	s.conns[c] = struct{}{}
	s.open[c] = struct{}{}
	s.running.Go(c.readFrames)
	s.running.Go(func() {
		c.out.run()
		_ = nc.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
	})
	return true
}

func hostOf(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return "127.0.0.1" // in memory
	}
	return host
}

// readFrames is a goroutine.
func (c *conn) readFrames() {
	defer c.gate.hangUp()
	in := bufio.NewReader(c.nc)
	head := make([]byte, 4)
	for first := true; ; first = false {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		if first && isWord(head) && c.server.answerWord(c, string(head)) {
			return
		}
		n := binary.BigEndian.Uint32(head)
		if n > zkwire.MaxFrame {
			c.server.mu.Lock()
			c.server.sever(c)
			c.server.mu.Unlock()
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		c.gate.inbound(body)
	}
}

// receive is called by the gate with each frame, and with nil once the client
// has hung up.
func (c *conn) receive(body []byte) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member != nil {
		defer s.member.ensemble.run()
	}
	switch {
	case body == nil:
		s.leave(c)
		c.gate.close()
		c.finish()
	case c.gone:
	case s.member != nil:
		s.member.receive(c, body)
	case c.session == nil:
		s.connect(c, body)
	default:
		s.request(c, body)
	}
}

// sent is called with the server's lock held.
func (c *conn) sent(frame []byte) {
	if c.gone {
		return
	}
	c.seen.sent++
	c.server.counted.sent++
	c.gate.outbound(frame)
}

// finish closes the connection once what the gate has let through is sent.
func (c *conn) finish() {
	_ = c.nc.SetWriteDeadline(time.Now().Add(lastWords))
	c.out.finish()
}

// lastWords is how long a client may take to read what was sent before the end.
const lastWords = 5 * time.Second

// cut closes the connection at once. It takes no lock of the server.
func (c *conn) cut() {
	c.gate.close()
	c.out.abort()
}

// leave makes the server forget a connection: its watches end, its session
// waits for another one. The caller holds the server's lock.
func (s *Server) leave(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	delete(s.conns, c)
	c.listener.replica.watches.Forget(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// drop ends a connection behind what it was sent.
func (s *Server) drop(c *conn) {
	s.leave(c)
	c.gate.end(c.finish)
}

// sever ends a connection at once, without another answer.
func (s *Server) sever(c *conn) {
	s.leave(c)
	c.cut()
}

// crash ends a connection as a server does that is gone: nothing of what was
// under way arrives, and behind a partition the client does not even notice.
func (s *Server) crash(c *conn) {
	s.leave(c)
	c.gate.crash(c.out.abort)
}
