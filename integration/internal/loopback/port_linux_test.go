package loopback_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only on Linux can a port stay reserved.
func TestReservedPortIsNotGivenAway(t *testing.T) {
	taken := map[int]bool{}
	for range 200 {
		port := reserve(t)
		require.False(t, taken[port.Number()], "port %d reserved twice", port.Number())
		taken[port.Number()] = true
	}
	for range 200 {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, listener.Close()) })
		require.False(t, taken[listener.Addr().(*net.TCPAddr).Port])
	}
}
