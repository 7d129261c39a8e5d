package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// deleteOnce deletes a node; one that is gone is fine.
func (s *session) deleteOnce(ctx context.Context, node string) error {
	err := s.delete(ctx, node, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// deleteSurely deletes a node that no session's end would, in one session after
// the other. It gives up when the client is closed for good. The node that was
// gone before is zk.ErrNoNode.
func (c *Client) deleteSurely(ctx context.Context, node string) error {
	for unsure := false; ; unsure = true { // from the second try on, an earlier one may have done it
		c.mu.Lock()
		s, changed := c.current, c.changed
		c.mu.Unlock()
		err := s.delete(ctx, node, -1)
		switch {
		case unsure && errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, errAmbiguous):
			continue
		case !errors.Is(err, errSessionOver):
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

// discard deletes a node in the background until it is certain to be gone.
func (s *session) discard(path string) {
	if s.isOver() {
		return // its nodes go with it
	}
	s.c.backlog.Go(func() { _ = s.deleteSurely(context.Background(), path) })
}

// deleteSurely deletes path however often it takes; the end of the session
// does it too.
func (s *session) deleteSurely(ctx context.Context, path string) error {
	for {
		err := s.delete(ctx, path, -1)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver):
			return nil
		case !errors.Is(err, errAmbiguous):
			return err
		}
	}
}
