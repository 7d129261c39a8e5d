package zkserver

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// Tap listens in on a client's connections to learn its session's id and password, which a client library does not
// expose. Give its DialTimeout to the client as its dialer. The zero value is ready for use; one Tap serves one client.
// It reads plain connections only, not TLS.
type Tap struct {
	mu      sync.Mutex
	session Session
	granted int
}

// DialTimeout connects in the form that github.com/go-zookeeper/zk asks for.
func (t *Tap) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	return &tappedConn{Conn: conn, tap: t}, nil
}

// Session returns the session that a server granted or renewed last; ok is false before the first.
func (t *Tap) Session() (session Session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session, t.granted > 0
}

// Granted counts how often a server granted or renewed a session: one for the first connection, one more for every
// reconnect.
func (t *Tap) Granted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.granted
}

func (t *Tap) grant(session Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session = session
	t.granted++
}

// tappedConn keeps what it reads until the connect response, the first frame, is complete.
type tappedConn struct {
	net.Conn
	tap  *Tap
	head []byte
	done bool
}

func (c *tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.done {
		c.look(p[:n])
	}
	return n, err
}

func (c *tappedConn) look(p []byte) {
	c.head = append(c.head, p...)
	if len(c.head) < 4 {
		return
	}
	size := int(binary.BigEndian.Uint32(c.head))
	if size <= maxAnswer && len(c.head) < 4+size {
		return
	}
	c.done = true
	if size <= maxAnswer {
		if session, err := parseConnectResponse(c.head[4 : 4+size]); err == nil && session.ID != 0 {
			c.tap.grant(session)
		}
	}
	c.head = nil
}
