package zkserver

import (
	"context"
	"fmt"
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
	_, err := closeOnce(ctx, addr, 0, make([]byte, 16))
	return err
}
