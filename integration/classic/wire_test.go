package classic

import (
	"context"
	"encoding/binary"
	"net"
	"sync"

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
	conn  net.Conn
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

// behind does something right after the n-th request of a kind was sent.
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
	w.conn = conn
	return &wiredConn{Conn: conn, wire: w}, nil
}

func (w *wire) pass(op uint32, after bool) {
	w.mu.Lock()
	act := w.act
	if act == nil || after != w.after || w.op != opAny && op != w.op {
		w.mu.Unlock()
		return
	}
	if w.left--; w.left >= 0 {
		w.mu.Unlock()
		return
	}
	w.act = nil
	w.mu.Unlock()
	act()
}

type wiredConn struct {
	net.Conn
	wire  *wire
	greet bool
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
	c.wire.pass(op, false)
	n, err := c.Conn.Write(b)
	c.wire.pass(op, true)
	return n, err
}
