package zkclient

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// DeleteOnce deletes a node; one that is gone is fine.
func (s *Session) DeleteOnce(ctx context.Context, node string) error {
	err := s.Delete(ctx, node, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// DeleteSurely deletes a node that no session's end would, in one session after
// the other. It gives up when the client is closed for good. The node that was
// gone before is zk.ErrNoNode.
func (c *Client) DeleteSurely(ctx context.Context, node string) error {
	for unsure := false; ; unsure = true { // from the second try on, an earlier one may have done it
		c.mu.Lock()
		s, changed := c.current, c.changed
		c.mu.Unlock()
		err := s.Delete(ctx, node, -1)
		switch {
		case unsure && errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, ErrAmbiguous):
			continue
		case !errors.Is(err, ErrSessionOver):
			return err
		}
		select {
		case <-changed:
		case <-c.closing.Done():
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Discard deletes a node in the background until it is certain to be gone.
func (s *Session) Discard(path string) {
	if s.IsOver() {
		return // its nodes go with it
	}
	s.c.backlog.Go(func() { _ = s.DeleteSurely(context.Background(), path) })
}

// DeleteSurely deletes path however often it takes; the end of the session
// does it too.
func (s *Session) DeleteSurely(ctx context.Context, path string) error {
	for {
		err := s.Delete(ctx, path, -1)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, ErrSessionOver):
			return nil
		case !errors.Is(err, ErrAmbiguous):
			return err
		}
	}
}
