package zktest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// maxUnread is how much a client may leave unread, in bytes, before it is cut
// off.
const maxUnread = 64 << 20

// A conn is a connection of a client. One goroutine reads its requests and has
// the server execute them; another one writes what there is to write, so that
// nobody who holds a lock waits for a slow client.
type conn struct {
	server   *Server
	listener *Listener
	name     string // of the dialer
	nc       net.Conn
	gate     *gate

	// These belong to the server's lock.
	session *session
	ids     []wire.ID // who the client has shown to be
	old     bool      // the client is from before 3.4
	gone    bool      // nothing of it counts any more
	seen    traffic

	mu       sync.Mutex
	wake     sync.Cond
	unsent   []byte
	finished bool // close once all is sent
	cutOff   bool // close now
}

// traffic is what the four-letter words tell of a connection.
type traffic struct {
	received, sent int
	last           wire.Op
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
	c := &conn{server: s, listener: l, name: name, nc: nc, ids: []wire.ID{{Scheme: "ip", Name: hostOf(nc)}}}
	c.wake.L = &c.mu
	var names []string
	for _, n := range []string{l.name, name} {
		if n != "" {
			names = append(names, n)
		}
	}
	c.gate = s.faults.open(names, c.receive, c.send, c.finish)
	s.conns[c] = struct{}{}
	s.running.Go(c.readFrames)
	s.running.Go(c.writeFrames)
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
	head := make([]byte, 4)
	for first := true; ; first = false {
		if _, err := io.ReadFull(c.nc, head); err != nil {
			return
		}
		if first && c.server.answerWord(c, string(head)) {
			return
		}
		n := binary.BigEndian.Uint32(head)
		if n > wire.MaxFrame {
			c.cut()
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(c.nc, body); err != nil {
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
	switch {
	case body == nil:
		s.leave(c)
		c.gate.close()
		c.finish()
	case c.gone:
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

// send is called by the gate with each frame that may go out.
func (c *conn) send(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished || c.cutOff {
		return
	}
	c.unsent = append(c.unsent, frame...)
	if len(c.unsent) > maxUnread {
		c.cutOff = true
	}
	c.wake.Signal()
}

// writeFrames is a goroutine.
func (c *conn) writeFrames() {
	defer c.nc.Close()
	var out []byte
	for {
		c.mu.Lock()
		for len(c.unsent) == 0 && !c.finished && !c.cutOff {
			c.wake.Wait()
		}
		if c.cutOff || len(c.unsent) == 0 {
			c.mu.Unlock()
			return
		}
		out, c.unsent = c.unsent, out[:0]
		c.mu.Unlock()
		if _, err := c.nc.Write(out); err != nil {
			c.cut()
			return
		}
		if cap(out) > 1<<16 {
			out = nil
		}
	}
}

// finish closes the connection once what the gate has let through is sent.
func (c *conn) finish() {
	_ = c.nc.SetWriteDeadline(time.Now().Add(lastWords))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	c.wake.Signal()
}

// lastWords is how long a client may take to read what was sent before the end.
const lastWords = 5 * time.Second

// cut closes the connection at once. It takes no lock of the server.
func (c *conn) cut() {
	c.gate.close()
	c.mu.Lock()
	already := c.cutOff
	c.cutOff = true
	c.wake.Signal()
	c.mu.Unlock()
	if !already {
		_ = c.nc.Close() // a write may be stuck
	}
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
