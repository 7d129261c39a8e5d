package virtual

import (
	"context"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Freezer stops a program as SIGSTOP would, as far as a bubble can: its connections, and all callers that wait for
// them, stand still.
type Freezer struct {
	Network bool // freezes what is sent and received, and not the watchdog

	mu     sync.Mutex
	thawed chan struct{} // closed unless frozen
}

// NewFreezer returns a freezer that does not freeze yet.
func NewFreezer() *Freezer {
	f := &Freezer{thawed: make(chan struct{})}
	close(f.thawed)
	return f
}

// Freeze stops the program.
func (f *Freezer) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
}

// Thaw lets it go on.
func (f *Freezer) Thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.thawed)
}

func (f *Freezer) pass() {
	f.mu.Lock()
	thawed := f.thawed
	f.mu.Unlock()
	<-thawed
}

// Through makes a program's connections stand still with the freezer.
func (f *Freezer) Through(cfg *lock.Config) {
	dial := cfg.Dialer
	cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		f.pass()
		conn, err := dial(ctx, network, address)
		return &frozenConn{conn, f}, err
	}
}

type frozenConn struct {
	net.Conn
	freezer *Freezer
}

func (c *frozenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.freezer.pass()
	return n, err
}

func (c *frozenConn) Write(b []byte) (int, error) {
	c.freezer.pass()
	return c.Conn.Write(b)
}

func (c *frozenConn) Close() error {
	c.freezer.pass()
	return c.Conn.Close()
}

// RemoteAddr is what the watchdog asks for when nothing has come for two fifths of the session: it does not see the
// deadline pass.
func (c *frozenConn) RemoteAddr() net.Addr {
	if !c.freezer.Network {
		c.freezer.pass()
	}
	return c.Conn.RemoteAddr()
}
