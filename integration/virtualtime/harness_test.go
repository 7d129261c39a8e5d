package virtualtime

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type (
	world   = virtual.World
	program = virtual.Program
	work    = virtual.Work
)

const (
	scope = virtual.Scope
	tick  = virtual.Tick
	long  = virtual.Long
	day   = virtual.Day
)

var (
	run            = virtual.Run
	untilCancelled = virtual.UntilCancelled
	lasting        = virtual.Lasting
)

// each plays a test for each of several cases.
func each[C any](t *testing.T, cases map[string]C, body func(w *world, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { run(t, func(w *world) { body(w, c) }) })
	}
}

// contenders are the nodes of all requests.
func contenders(w *world) []virtual.Contender {
	return slices.DeleteFunc(virtual.Contenders(w.Server, "/lockkeeper"), func(c virtual.Contender) bool { return c.Stat.EphemeralOwner == 0 })
}

// A ledger is what the lock protects. It refuses a token smaller than one that it has seen.
type ledger struct {
	mu      sync.Mutex
	highest lockguard.Token
}

type staleError struct{ token, highest lockguard.Token }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %s is refused: %s was here", e.token, e.highest)
}

func (l *ledger) write(token lockguard.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.highest {
		return &staleError{token, l.highest}
	}
	l.highest = token
	return nil
}

// A freezer stops a program as SIGSTOP would, as far as a bubble can: its connections, and all callers that wait for
// them, stand still.
type freezer struct {
	network bool // freezes what is sent and received, and not the watchdog

	mu     sync.Mutex
	thawed chan struct{} // closed unless frozen
}

func newFreezer() *freezer {
	f := &freezer{thawed: make(chan struct{})}
	close(f.thawed)
	return f
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
}

func (f *freezer) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.thawed)
}

func (f *freezer) pass() {
	f.mu.Lock()
	thawed := f.thawed
	f.mu.Unlock()
	<-thawed
}

// through makes a program's connections stand still with f.
func through(f *freezer) func(*lock.Config) {
	return func(cfg *lock.Config) {
		dial := cfg.Dialer
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			f.pass()
			conn, err := dial(ctx, network, address)
			return &frozenConn{conn, f}, err
		}
	}
}

type frozenConn struct {
	net.Conn
	freezer *freezer
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
	if !c.freezer.network {
		c.freezer.pass()
	}
	return c.Conn.RemoteAddr()
}
