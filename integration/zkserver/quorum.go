package zkserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// WaitCommitting returns when the server takes part in a quorum that commits: it opens a session and closes
// it again, which the ensemble must agree to. WaitServing asks the server alone, and a leader that was paused
// or cut off believes for a while that it still leads. It gives up as WaitServing does.
func (s *Server) WaitCommitting(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.startTimeout,
		fmt.Errorf("not committing after %s: %w", s.options.startTimeout, context.DeadlineExceeded))
	defer cancel()
	err := process.Poll(ctx, 50*time.Millisecond, func() error {
		if !s.Alive() {
			return process.ErrEnded
		}
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		return commit(attempt, s.Addr())
	})
	if err != nil {
		return s.errorf("wait until it commits: %w\nend of its log:\n%s", err, s.LogTail(30))
	}
	return nil
}

// WaitCommitting returns when every member commits whose process is alive. See Server.WaitCommitting.
func (e *Ensemble) WaitCommitting(ctx context.Context) error {
	return Each(e.servers, func(s *Server) error {
		if !s.Alive() {
			return nil
		}
		return s.WaitCommitting(ctx)
	})
}

// commit opens a session and closes it.
func commit(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(connectRequest(0, make([]byte, 16))); err != nil {
		return err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	session, err := parseConnectResponse(answer)
	if err != nil {
		return err
	}
	if session.ID == 0 {
		return errors.New("open a session: refused")
	}
	if _, err := conn.Write(closeRequest()); err != nil {
		return err
	}
	if answer, err = readFrame(conn); err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	if len(answer) < 16 || binary.BigEndian.Uint32(answer[12:]) != 0 {
		return fmt.Errorf("close a session: answered %x", answer)
	}
	_, _ = io.Copy(io.Discard, conn) // the server hangs up
	return nil
}
