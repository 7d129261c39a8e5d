package zkserver

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A client that reconnects at once pushes other connections of its session out, the one that wants to close it included.
func TestSessionIsClosedAgainstClientThatKeepsReconnecting(t *testing.T) {
	server := Start(t)
	for range 10 {
		var session zkwire.ConnectResponse
		require.Eventually(t, func() bool {
			var err error
			session, err = attach(server.Addr(), zkwire.ConnectResponse{Password: make([]byte, 16)}, false)
			return err == nil && session.Session != 0
		}, 3*time.Minute, time.Millisecond)

		var rivals sync.WaitGroup
		for range 4 {
			rivals.Go(func() {
				for {
					if again, err := attach(server.Addr(), session, true); err == nil && again.Session == 0 {
						return // the server says that it is gone
					}
				}
			})
		}
		err := CloseSession(t.Context(), server.Addr(), session.Session, session.Password)
		require.NoError(t, err)
		rivals.Wait()
	}
}

// attach connects to a session (a new one for id 0), and when asked to, stays until the server closes the connection.
func attach(addr string, session zkwire.ConnectResponse, stay bool) (granted zkwire.ConnectResponse, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return granted, err
	}
	defer conn.Close()
	// Of several that come at once the server may forget one, and then neither serves nor closes it.
	if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return granted, err
	}
	if _, err := conn.Write(connectRequest(session.Session, session.Password)); err != nil {
		return granted, err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return granted, err
	}
	granted, err = zkwire.ParseConnectResponse(answer)
	if err == nil && stay && granted.Session != 0 {
		_, _ = io.ReadAll(conn)
	}
	return granted, err
}
