package zkproxy_test

import (
	"context"
	"io"
	"log"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var shared = zkserver.Shared{
	Options: []zkserver.Option{zkserver.WithSessionTimeouts(time.Second, time.Minute)},
}

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

const (
	patience = 30 * time.Second
	session  = 15 * time.Second // longer than any test takes things away from a client
)

// stage is a proxy in front of the real server, and what the server really has.
type stage struct {
	*zktest.Proxy
	t     *testing.T
	root  string
	admin *zk.Conn // not through the proxy
}

func newStage(t *testing.T) *stage {
	server := shared.Server(t)
	proxy := zktest.RunProxyT(t, server.Addr())
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range proxy.Trace() {
				t.Log(e)
			}
		}
	})
	s := &stage{Proxy: proxy, t: t, root: zkserver.Root(t)}
	s.admin, _ = open(t, server.Addr(), nil)
	_, err := s.admin.Create(s.root, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	return s
}

func open(t *testing.T, addr string, dial zk.Dialer) (*zk.Conn, <-chan zk.Event) {
	if dial == nil {
		dial = net.DialTimeout
	}
	conn, events, err := zk.Connect([]string{addr}, session, zk.WithDialer(dial),
		zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	await(t, events, zk.StateHasSession)
	return conn, events
}

func await(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.Type == zk.EventSession && e.State == state {
				return
			}
		case <-deadline:
			require.FailNow(t, "the client never got to state "+state.String())
		}
	}
}

// client connects over TCP.
func (s *stage) client() (*zk.Conn, <-chan zk.Event) { return open(s.t, s.Addr(), nil) }

// named connects in memory.
func (s *stage) named(name string) (*zk.Conn, <-chan zk.Event) {
	dial := s.Dialer(name)
	return open(s.t, s.Addr(), func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
		defer cancel()
		return dial(ctx, network, address)
	})
}

func (s *stage) path(name string) string { return s.root + "/" + name }

func (s *stage) create(c *zk.Conn, name string) error {
	_, err := c.Create(s.path(name), nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	return err
}

// later creates without waiting for the answer.
func (s *stage) later(c *zk.Conn, name string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.create(c, name) }()
	return done
}

func (s *stage) requireNode(name string, want bool) {
	s.t.Helper()
	require.Equal(s.t, want, s.has(name))
}

func (s *stage) has(name string) bool {
	there, _, err := s.admin.Exists(s.path(name))
	require.NoError(s.t, err)
	return there
}

func reached(t *testing.T, rule *zktest.Rule) {
	t.Helper()
	select {
	case <-rule.Reached():
	case <-time.After(patience):
		require.FailNow(t, rule.String()+" was not reached")
	}
}

func result[T any](t *testing.T, done <-chan T) T {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}
