package zkclient

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// serverClock estimates the server's clock from its stamp on a write of ours.
type serverClock struct {
	mu    sync.Mutex
	known bool
	stamp ServerStamp
}

// ServerStamp ties the server's clock to ours: the server wrote at, somewhere
// between sent and replied.
type ServerStamp struct {
	At            int64 // milliseconds
	Sent, Replied Instant
}

// NotAhead estimates the server's time, never ahead of it: for a waiter.
func (b ServerStamp) NotAhead(now Instant) int64 { return b.At + now.Sub(b.Replied).Milliseconds() }

// NotBehind estimates the server's time, never behind it: for a holder.
func (b ServerStamp) NotBehind(now Instant) int64 { return b.At + now.Sub(b.Sent).Milliseconds() }

func (c *serverClock) reset() {
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
}

func (c *serverClock) learn(b ServerStamp) {
	c.mu.Lock()
	c.known, c.stamp = true, b
	c.mu.Unlock()
}

// ServerNow returns the server's time for display. It writes <root>/clock once
// if this session has not written anything yet.
func (c *Client) ServerNow(ctx context.Context, s *Session) (int64, error) {
	c.server.mu.Lock()
	known, stamp := c.server.known, c.server.stamp
	c.server.mu.Unlock()
	if known {
		return stamp.NotAhead(s.clock.now()), nil
	}
	path := c.root + "/clock"
	for {
		sent := s.clock.now()
		stat, err := s.Set(ctx, path, nil, -1)
		switch {
		case err == nil:
			stamp = ServerStamp{At: stat.Mtime, Sent: sent, Replied: s.clock.now()}
			c.server.learn(stamp)
			return stamp.At, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := s.Ensure(ctx, path); IsRefusal(err) {
				return 0, fmt.Errorf("%w: %w", zk.ErrNoAuth, err) // like who may not write there
			} else if err != nil {
				return 0, err
			}
		case !errors.Is(err, ErrAmbiguous):
			return 0, err
		}
	}
}
