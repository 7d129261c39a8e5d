package zkserver_test

import (
	"io"
	"log"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

var shared zkserver.Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

// client is a plain ZooKeeper client that keeps every event of its session.
type client struct {
	*zk.Conn
	events chan zk.Event
	tap    *zkserver.Tap
}

func connect(t *testing.T, servers string, timeout time.Duration) *client {
	t.Helper()
	c := &client{events: make(chan zk.Event, 1000), tap: &zkserver.Tap{}}
	conn, _, err := zk.Connect(strings.Split(servers, ","), timeout,
		zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			return c.tap.DialTimeout(network, addr, timeout)
		}),
		zk.WithEventCallback(func(e zk.Event) { c.events <- e }))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	c.Conn = conn
	c.await(t, zk.StateHasSession)
	return c
}

func (c *client) await(t *testing.T, state zk.State) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case e := <-c.events:
			if e.Type == zk.EventSession && e.State == state {
				return
			}
		case <-deadline:
			require.FailNow(t, "the client never got to state "+state.String())
		}
	}
}

func (c *client) write(t *testing.T, path, data string) {
	t.Helper()
	_, err := c.Create(path, []byte(data), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func (c *client) read(t *testing.T, path string) string {
	t.Helper()
	data, _, err := c.Get(path)
	require.NoError(t, err)
	return string(data)
}

func (c *client) session(t *testing.T) zkserver.Session {
	t.Helper()
	session, ok := c.tap.Session()
	require.True(t, ok, "no session has been granted")
	return session
}
