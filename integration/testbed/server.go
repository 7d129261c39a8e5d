package testbed

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/integration/internal/serverlog"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// Server is one ZooKeeper server under the control of a test. What a method
// does has happened when it returns. Methods may be called from any goroutine.
type Server interface {
	// Addr returns the address for clients, "127.0.0.1:port". It never changes.
	Addr() string

	// Expire ends a session: its ephemeral nodes are gone, and its client learns
	// it at its next connection. A session that is not there is an error.
	Expire(ctx context.Context, session int64, password []byte) error

	// Ephemerals returns the paths of all ephemeral nodes, in no order.
	Ephemerals(ctx context.Context) ([]string, error)

	// Watches returns the path of each data watch, in no order: a path that two
	// sessions watch is there twice.
	Watches(ctx context.Context) ([]string, error)

	// Stop ends the server in good order: connections break, new ones are
	// refused. Sessions and nodes are kept for Restart. It may be called again.
	Stop() error

	// Kill is Stop without the good order: what is under way breaks off.
	Kill() error

	// Restart starts a server again that was stopped or killed, and stops one
	// that runs before that. It returns when the server serves. Sessions live on
	// for their timeout at least, counted from here.
	Restart(ctx context.Context) error

	// Pause freezes the server: connections stay open, or open anew, and nothing
	// is answered.
	Pause() error

	// Resume ends Pause: what was sent meanwhile is answered, and sessions that
	// have been silent for too long end.
	Resume() error

	// LogTail returns the last lines of what the server has written down, for
	// people who look for the cause of a failure.
	LogTail(lines int) string

	// Close ends the server and removes what it leaves. It may be called again.
	Close() error
}

// Settings say how a server runs. The zero value is fit for most tests.
type Settings struct {
	// LongestSession is the longest session timeout that is granted; longer
	// ones are cut. Defaults to ten minutes.
	LongestSession time.Duration

	// ShortestSession is the shortest session timeout that is granted; shorter
	// ones are lengthened. Defaults to two ticks.
	ShortestSession time.Duration

	// Sweep is how often the server looks for unused containers, and removes
	// them. Defaults to a minute.
	Sweep time.Duration

	// Tick is the unit of the server's clock: sessions end on one. Defaults to
	// 200ms.
	Tick time.Duration
}

func (s Settings) complete() Settings {
	if s.Tick == 0 {
		s.Tick = 200 * time.Millisecond
	}
	if s.Sweep == 0 {
		s.Sweep = time.Minute
	}
	if s.ShortestSession == 0 {
		s.ShortestSession = 2 * s.Tick
	}
	if s.LongestSession == 0 {
		s.LongestSession = 10 * time.Minute
	}
	return s
}

// Run starts a server of the selected backend and returns when it serves. It
// ends with Close.
func Run(ctx context.Context, s Settings) (Server, error) {
	backend, err := Selected()
	switch {
	case err != nil:
		return nil, err
	case backend == Embedded:
		return runEmbedded(s.complete())
	default:
		return runApache(ctx, s.complete())
	}
}

// Start runs a server for the length of a test that stops or restarts it, or
// needs settings of its own. What a failed test's server wrote is kept in a file.
func Start(t testing.TB, s Settings) Server {
	t.Helper()
	server, err := Run(t.Context(), s)
	if err != nil {
		t.Fatalf("start ZooKeeper: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	t.Cleanup(func() { keepLog(t, server) })
	return server
}

// Root returns a path under "/" that no other test uses, named after the test.
// It is not created.
func Root(t testing.TB) string { t.Helper(); return zkserver.Root(t) }

// Shell opens an administrator's connection, closed at the end of the test.
func Shell(t testing.TB, server Server) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{server.Addr()}, time.Minute, zk.WithLogger(silent{}), zk.WithDialer(dialGreeted))
	if err != nil {
		t.Fatalf("connect to ZooKeeper: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// greetingPatience is how long a server may take to greet. One that has just been started accepts
// connections, and may never say anything on them; the library waits ten times its timeout for that.
const greetingPatience = 10 * time.Second

func dialGreeted(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &greetedConn{Conn: conn}, nil
}

// A greetedConn fails if the server does not greet. It is read by one goroutine at a time.
type greetedConn struct {
	net.Conn
	greeted bool
}

func (c *greetedConn) SetReadDeadline(t time.Time) error {
	if soon := time.Now().Add(greetingPatience); !c.greeted && t.After(soon) {
		t = soon
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *greetedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.greeted = c.greeted || n > 0
	return n, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// keepLog keeps the end of what the server has written, if the test has failed.
func keepLog(t testing.TB, server Server) {
	t.Helper()
	if t.Failed() {
		serverlog.Keep(t, server.Addr(), server.LogTail(5000))
	}
}
