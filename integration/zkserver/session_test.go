package zkserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestExpiringAnUnknownSessionIsRefused(t *testing.T) {
	server := zkserver.Start(t, lasting())
	c := connect(t, server.Addr(), time.Minute)
	id, password := c.SessionID(), zkserver.Password(c.SessionID())

	err := zkserver.CloseSession(t.Context(), server.Addr(), id, make([]byte, 16))
	require.ErrorIs(t, err, zkserver.ErrSessionRefused, "wrong password")
	err = zkserver.CloseSession(t.Context(), server.Addr(), id+12345, password)
	require.ErrorIs(t, err, zkserver.ErrSessionRefused, "unknown id")
	require.Equal(t, id, c.SessionID())

	zkserver.ExpireSession(t, server.Addr(), id, password)
	err = zkserver.CloseSession(t.Context(), server.Addr(), id, password)
	require.ErrorIs(t, err, zkserver.ErrSessionRefused, "already ended")
}

func TestFiguresAreRead(t *testing.T) {
	server := zkserver.Start(t, lasting())
	c := connect(t, server.Addr(), time.Minute)
	c.write(t, "/a", "")
	_, _, _, err := c.GetW("/a")
	require.NoError(t, err)
	_, _, _, err = c.ChildrenW("/a")
	require.NoError(t, err)

	figures, err := server.Monitor(t.Context())
	require.NoError(t, err)
	require.Equal(t, "standalone", figures["zk_server_state"])
	require.Equal(t, "2", figures["zk_watch_count"])
}
