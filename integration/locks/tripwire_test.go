package locks

import (
	"context"
	"encoding/binary"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// spot is a moment in the life of a request to the server.
type spot string

const (
	beforeRequest     spot = "before request"
	beforeTransaction spot = "before transaction"
	beforeListing     spot = "before listing"
	beforeGet         spot = "before get"
	afterRequest      spot = "after request"
	atAnswer          spot = "at answer"
)

// A tripwire lies in a client's connection and does something at one of its
// requests or answers, counted from 0 since it was set.
type tripwire struct {
	mu    sync.Mutex
	where spot
	left  int
	act   func() // nil once it was done
	conn  net.Conn
}

func (w *tripwire) set(where spot, n int, act func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.where, w.left, w.act = where, n, act
}

// unset reports whether the wire was tripped.
func (w *tripwire) unset() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	tripped := w.act == nil
	w.where, w.act = "", nil
	return tripped
}

func (w *tripwire) pass(where spot) {
	w.mu.Lock()
	act := w.act
	if where != w.where || act == nil {
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

func (w *tripwire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.conn = conn
	w.mu.Unlock()
	return &wiredConn{Conn: conn, wire: w}, nil
}

// cut closes the connection: what was sent arrives, the answer does not.
func (w *tripwire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.conn.Close()
}

func through(w *tripwire) func(*recipes.Config) {
	return func(cfg *recipes.Config) { cfg.Dialer = w.dial }
}

type wiredConn struct {
	net.Conn
	wire *tripwire
}

// Operations of ZooKeeper's wire protocol.
const (
	opGetData      = 4
	opPing         = 11
	opGetChildren2 = 12
	opMulti        = 14
)

// Write sends one request, as the client does.
func (c *wiredConn) Write(b []byte) (int, error) {
	op := uint32(opPing)
	if len(b) >= 12 {
		op = binary.BigEndian.Uint32(b[8:])
	}
	switch op {
	case opMulti:
		c.wire.pass(beforeTransaction)
	case opGetData:
		c.wire.pass(beforeGet)
	case opGetChildren2:
		c.wire.pass(beforeListing)
	}
	if op != opPing {
		c.wire.pass(beforeRequest)
	}
	n, err := c.Conn.Write(b)
	if op != opPing {
		c.wire.pass(afterRequest)
	}
	return n, err
}

func (c *wiredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.wire.pass(atAnswer)
	}
	return n, err
}
