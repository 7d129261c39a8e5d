package zkserver

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that reconnects at once pushes other connections of its session out, the one that wants to close it included.
func TestSessionIsClosedAgainstClientThatKeepsReconnecting(t *testing.T) {
	server := Start(t)
	for range 10 {
		var session Session
		require.Eventually(t, func() bool {
			var err error
			session, err = attach(server.Addr(), Session{Password: make([]byte, 16)}, false)
			return err == nil && session.ID != 0
		}, time.Minute, time.Millisecond)

		var rivals sync.WaitGroup
		for range 4 {
			rivals.Go(func() {
				for {
					if again, err := attach(server.Addr(), session, true); err == nil && again.ID == 0 {
						return // the server says that it is gone
					}
				}
			})
		}
		err := CloseSession(t.Context(), server.Addr(), session.ID, session.Password)
		require.NoError(t, err)
		rivals.Wait()
	}
}

// attach connects to a session (a new one for ID 0), and when asked to, stays until the server closes the connection.
func attach(addr string, session Session, stay bool) (Session, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return Session{}, err
	}
	defer conn.Close()
	// Of several that come at once the server may forget one, and then neither serves nor closes it.
	if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return Session{}, err
	}
	if _, err := conn.Write(connectRequest(session.ID, session.Password)); err != nil {
		return Session{}, err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return Session{}, err
	}
	granted, err := parseConnectResponse(answer)
	if err == nil && stay && granted.ID != 0 {
		_, _ = io.ReadAll(conn)
	}
	return granted, err
}
