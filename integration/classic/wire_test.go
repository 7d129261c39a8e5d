package classic

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Operations of ZooKeeper's wire protocol; opAny is each but pings.
const (
	opAny          = 0
	opCreate       = 1
	opDelete       = 2
	opGetData      = 4
	opPing         = 11
	opGetChildren2 = 12
	opMulti        = 14
)

// A wire is a client's connection that a test can cut at a request.
type wire struct {
	mu    sync.Mutex
	conn  *wiredConn
	op    uint32
	after bool // the request was sent
	left  int
	act   func() // nil: nothing, or done
}

func through(w *wire) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Dialer = w.dial }
}

// before does something before the n-th request of a kind from now on, counted
// from 0, is sent.
func (w *wire) before(op uint32, n int, act func()) { w.set(op, false, n, act) }

// behind does something right after the n-th request of a kind was sent, before
// anything of its answer is seen.
func (w *wire) behind(op uint32, n int, act func()) { w.set(op, true, n, act) }

func (w *wire) set(op uint32, after bool, n int, act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.op, w.after, w.left, w.act = op, after, n, act
}

// unset reports whether it has happened.
func (w *wire) unset() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.act == nil
	w.act = nil
	return done
}

// cut closes the connection: what was sent arrives, the answer does not.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn.dead.Store(true)
	_ = w.conn.Close()
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = &wiredConn{Conn: conn, wire: w}
	return w.conn, nil
}

// due returns what is to be done at a request, once.
func (w *wire) due(op uint32, after bool) (act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.act == nil || after != w.after || w.op != opAny && op != w.op {
		return nil
	}
	if w.left--; w.left >= 0 {
		return nil
	}
	act, w.act = w.act, nil
	return act
}

type wiredConn struct {
	net.Conn
	wire  *wire
	greet bool
	gate  sync.RWMutex // keeps answers back
	dead  atomic.Bool
}

// Write sends one request, as the client does.
func (c *wiredConn) Write(b []byte) (int, error) {
	if !c.greet { // the connect request
		c.greet = true
		return c.Conn.Write(b)
	}
	op := uint32(opPing)
	if len(b) >= 12 {
		op = binary.BigEndian.Uint32(b[8:])
	}
	if op == opPing {
		return c.Conn.Write(b)
	}
	if act := c.wire.due(op, false); act != nil {
		act()
	}
	act := c.wire.due(op, true)
	if act == nil {
		return c.Conn.Write(b)
	}
	c.gate.Lock()
	defer c.gate.Unlock()
	n, err := c.Conn.Write(b)
	act()
	return n, err
}

func (c *wiredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.RLock()
	defer c.gate.RUnlock()
	if c.dead.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}
