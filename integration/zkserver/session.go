package zkserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
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
		sent, err := closeOnce(ctx, addr, id, password)
		refused := errors.Is(err, ErrSessionRefused)
		if err == nil || (asked && refused) {
			return nil
		}
		if !sent || refused || ctx.Err() != nil {
			return fmt.Errorf("zkserver: close session %#x at %s: %w", uint64(id), addr, err)
		}
		asked = true
		<-ticker.C
	}
}

const (
	opClose   = -11
	closeXid  = 1
	maxAnswer = 1 << 16
)

func closeOnce(ctx context.Context, addr string, id int64, password []byte) (sent bool, err error) {
	// Of several connections to one session that come at once the server may forget one, and never close it.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
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
	session, err := parseConnectResponse(answer)
	if err != nil {
		return true, err
	}
	if session.ID != id {
		return true, ErrSessionRefused
	}
	for {
		answer, err := readFrame(conn)
		if err != nil {
			return true, fmt.Errorf("read the answer to the close request: %w", err)
		}
		if len(answer) < 16 {
			return true, fmt.Errorf("an answer of %d bytes is too short", len(answer))
		}
		if xid := int32(binary.BigEndian.Uint32(answer)); xid != closeXid {
			continue // an event of a watch
		}
		if code := int32(binary.BigEndian.Uint32(answer[12:])); code != 0 {
			return true, fmt.Errorf("the server answered the close request with error %d", code)
		}
		return true, nil
	}
}

func connectRequest(id int64, password []byte) []byte {
	var body []byte
	body = binary.BigEndian.AppendUint32(body, 0)      // protocol version
	body = binary.BigEndian.AppendUint64(body, 0)      // last zxid seen
	body = binary.BigEndian.AppendUint32(body, 10_000) // session timeout in ms
	body = binary.BigEndian.AppendUint64(body, uint64(id))
	body = binary.BigEndian.AppendUint32(body, uint32(len(password)))
	body = append(body, password...)
	body = append(body, 0) // not read-only
	return frame(body)
}

func closeRequest() []byte {
	op := int32(opClose)
	body := binary.BigEndian.AppendUint32(nil, closeXid)
	return frame(binary.BigEndian.AppendUint32(body, uint32(op)))
}

func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
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

// Session is what a client needs to come back to its session, and CloseSession to end it.
type Session struct {
	ID       int64
	Password []byte
	Timeout  time.Duration // as the server granted it
}

// parseConnectResponse reads protocol version, timeout, session id and password; newer servers add a byte. An id and a
// timeout of 0 say that the session is gone.
func parseConnectResponse(body []byte) (Session, error) {
	const fixed = 4 + 4 + 8 + 4
	if len(body) < fixed {
		return Session{}, fmt.Errorf("a connect response of %d bytes is too short", len(body))
	}
	size := binary.BigEndian.Uint32(body[16:])
	if uint64(size) > uint64(len(body)-fixed) {
		return Session{}, fmt.Errorf("a connect response of %d bytes cannot hold a password of %d", len(body), size)
	}
	return Session{
		ID:       int64(binary.BigEndian.Uint64(body[8:])),
		Password: append([]byte(nil), body[fixed:fixed+size]...),
		Timeout:  time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond,
	}, nil
}
