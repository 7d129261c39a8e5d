package lock

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// refused is a dialer of servers that are not there.
func refused(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

// unconnected is a client that no server answers.
func unconnected(t testing.TB, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{Servers: []string{"zk1:2181"}, Dialer: refused}
	for _, f := range change {
		f(&cfg)
	}
	c, err := NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
