package zkserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestExpiringAnUnknownSessionIsRefused(t *testing.T) {
	server := shared.Server(t)
	c := connect(t, server.Addr(), 4*time.Second)
	session := c.session(t)

	err := zkserver.CloseSession(t.Context(), server.Addr(), session.ID, make([]byte, 16))
	require.ErrorIs(t, err, zkserver.ErrSessionRefused, "wrong password")
	err = zkserver.CloseSession(t.Context(), server.Addr(), session.ID+12345, session.Password)
	require.ErrorIs(t, err, zkserver.ErrSessionRefused, "unknown id")
	require.Equal(t, session.ID, c.SessionID())

	zkserver.ExpireSession(t, server.Addr(), session.ID, session.Password)
	err = zkserver.CloseSession(t.Context(), server.Addr(), session.ID, session.Password)
	require.ErrorIs(t, err, zkserver.ErrSessionRefused, "already ended")
}

func TestWatchesAndFiguresAreCounted(t *testing.T) {
	server := zkserver.Start(t)
	c := connect(t, server.Addr(), 4*time.Second)
	c.write(t, "/a", "")
	c.write(t, "/b", "")
	for _, path := range []string{"/a", "/a", "/b"} {
		_, _, _, err := c.GetW(path)
		require.NoError(t, err)
	}
	_, _, _, err := c.ChildrenW("/b")
	require.NoError(t, err)

	watches, err := server.Watches(t.Context())
	require.NoError(t, err)
	require.Equal(t, zkserver.Watches{Connections: 1, Paths: 2, Total: 2}, watches, "data watches only")
	figures, err := server.Monitor(t.Context())
	require.NoError(t, err)
	require.Equal(t, "standalone", figures["zk_server_state"])
	require.Equal(t, "3", figures["zk_watch_count"])
}
