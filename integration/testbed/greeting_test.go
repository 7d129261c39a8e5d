package testbed

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that has just been started accepts connections, and may never say anything on them.
func TestConnectionOfAServerThatDoesNotGreetEnds(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	conn, err := dialGreeted("tcp", listener.Addr().String(), time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 4))
		ended <- err
	}()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "timeout")
	case <-time.After(time.Minute):
		require.Fail(t, "it is waited for")
	}
}
