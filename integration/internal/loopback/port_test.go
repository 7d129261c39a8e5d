package loopback_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
)

func TestReservedPortRefusesConnectionsUntilSomebodyListens(t *testing.T) {
	port := reserve(t)

	_, err := net.Dial("tcp4", port.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	for range 3 { // a server may come and go
		listener, err := net.Listen("tcp4", port.Addr())
		require.NoError(t, err)
		conn, err := net.Dial("tcp4", port.Addr())
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, listener.Close())
	}
}

func reserve(t *testing.T) *loopback.Port {
	t.Helper()
	port, err := loopback.Reserve()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Release()) })
	return port
}
