package zkserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// ErrSessionRefused is returned when a server does not know the session: it has ended before, or the password
// is wrong.
var ErrSessionRefused = errors.New("the server refused the session: it has ended, or the id or the password is wrong")

// CloseSession ends a session on the server at once: its ephemeral nodes go, and its client, which loses its
// connection, learns at its next one that the session has expired. It does what the client itself would do, by the
// wire protocol: connect with the session's id and password, then close the session and wait for the answer.
//
// nil means that the session was there and is gone now. A server that does not know the session gives
// ErrSessionRefused. Without a deadline in ctx it gives up after 10s.
func CloseSession(ctx context.Context, addr string, id int64, password []byte) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	// The client may reconnect at the same time and push this connection out: try again. A server that does not know a
	// session says so before it hangs up, so once a request has been sent and the connection broke without that,
	// "unknown" is the answer to it.
	asked := false
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		// Of several connections to one session that come at once the server may forget one, and never close it.
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		sent, err := closeOnce(attempt, addr, id, password)
		unheard := !sent && attempt.Err() != nil // a busy machine takes as long to connect
		cancel()
		refused := errors.Is(err, ErrSessionRefused)
		if err == nil || (asked && refused) {
			return nil
		}
		if !sent && !unheard || refused || ctx.Err() != nil {
			return fmt.Errorf("zkserver: close session %#x at %s: %w", uint64(id), addr, err)
		}
		asked = asked || sent
		<-ticker.C
	}
}

const (
	closeXid  = 1
	maxAnswer = 1 << 16
)

// closeOnce connects to a session, for an id of 0 to a new one, and closes it.
func closeOnce(ctx context.Context, addr string, id int64, password []byte) (sent bool, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	// Both in one write: the less time between them, the less often the client comes in between.
	if _, err := conn.Write(append(connectRequest(id, password), closeRequest()...)); err != nil {
		return true, err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return true, fmt.Errorf("read the answer to the connect request: %w", err)
	}
	granted, err := zkwire.ParseConnectResponse(answer)
	if err != nil {
		return true, err
	}
	if granted.Session == 0 || id != 0 && granted.Session != id {
		return true, ErrSessionRefused
	}
	for {
		answer, err := readFrame(conn)
		if err != nil {
			return true, fmt.Errorf("read the answer to the close request: %w", err)
		}
		reply, _, err := zkwire.ParseReplyHeader(answer)
		if err != nil {
			return true, err
		}
		if reply.Xid != closeXid {
			continue // an event of a watch
		}
		if reply.Code != zkwire.OK {
			return true, fmt.Errorf("the answer to the close request: %w", reply.Code)
		}
		return true, nil
	}
}

func connectRequest(id int64, password []byte) []byte {
	return zkwire.ConnectRequest{Timeout: 10_000, Session: id, Password: password}.Append(nil)
}

func closeRequest() []byte {
	return zkwire.EndFrame(zkwire.Int32(zkwire.Int32(zkwire.BeginFrame(nil), closeXid), int32(zkwire.OpCloseSession)), 0)
}

func readFrame(conn io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes is too long", size)
	}
	body := make([]byte, size)
	_, err := io.ReadFull(conn, body)
	return body, err
}
