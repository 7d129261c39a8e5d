package recipes

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
	stamp serverStamp
}

// serverStamp ties the server's clock to ours: the server wrote at, somewhere
// between sent and replied.
type serverStamp struct {
	at            int64 // milliseconds
	sent, replied instant
}

// notAhead estimates the server's time, never ahead of it: for a waiter.
func (b serverStamp) notAhead(now instant) int64 { return b.at + now.sub(b.replied).Milliseconds() }

// notBehind estimates the server's time, never behind it: for a holder.
func (b serverStamp) notBehind(now instant) int64 { return b.at + now.sub(b.sent).Milliseconds() }

func (c *serverClock) reset() {
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
}

func (c *serverClock) learn(b serverStamp) {
	c.mu.Lock()
	c.known, c.stamp = true, b
	c.mu.Unlock()
}

// serverNow returns the server's time for display. It writes <root>/clock once
// if this session has not written anything yet.
func (c *Client) serverNow(ctx context.Context, s *session) (int64, error) {
	c.server.mu.Lock()
	known, stamp := c.server.known, c.server.stamp
	c.server.mu.Unlock()
	if known {
		return stamp.notAhead(s.clock.now()), nil
	}
	path := c.root + "/clock"
	for {
		sent := s.clock.now()
		stat, err := s.set(ctx, path, nil, -1)
		switch {
		case err == nil:
			stamp = serverStamp{at: stat.Mtime, sent: sent, replied: s.clock.now()}
			c.server.learn(stamp)
			return stamp.at, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := s.ensure(ctx, path); isRefusal(err) {
				return 0, fmt.Errorf("%w: %w", zk.ErrNoAuth, err) // like who may not write there
			} else if err != nil {
				return 0, err
			}
		case !errors.Is(err, errAmbiguous):
			return 0, err
		}
	}
}
