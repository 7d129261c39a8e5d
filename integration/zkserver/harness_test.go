package zkserver_test

import (
	"os"
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

// lasting lets sessions outlive a machine that stands still for seconds.
func lasting() zkserver.Option {
	return zkserver.WithSessionTimeouts(400*time.Millisecond, time.Minute)
}

// client is a guest that writes and reads.
type client struct{ *zkserver.Guest }

func connect(t *testing.T, servers string, timeout time.Duration) *client {
	t.Helper()
	return &client{zkserver.Visit(t, servers, timeout)}
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
