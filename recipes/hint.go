package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A hint is what this process remembers of a lock to save requests. Being
// wrong costs a request, never safety: the lock node's version decides.
type hint struct {
	idle    bool   // released by us with nobody waiting, at version
	version int32  // of the lock node
	epoch   int32  // read before version was: one from before a removal fails
	blind   int8   // how often we have released it since a request of ours looked who is there
	open    walkIn // where readers may walk in; the zero value: nowhere that is known
	walking int8   // how many of ours are on their way in
	throng  throng // how many hold it then, at most
	busy    int8   // > 0: others were seen lately, so look for a successor before leaving

	waiting   int            // how many waited
	lowest    priority.Level // of those
	waitingAt time.Time      // when a request of ours looked

	wait time.Duration // how long requests of ours wait for a hand-over, about
}

func (h *hint) crowded() { h.busy, h.idle = busyLooks, false }

// waited takes note of how long a request waited for its hand-over.
func (h *hint) waited(d time.Duration) {
	if h.wait == 0 {
		h.wait = d
	}
	h.wait = (h.wait + d) / 2
}

// maxPatience is the longest wait for a hand-over that is usual for a busy lock.
const maxPatience = 500 * time.Millisecond

// patience is how long one that stands behind several others may wait on its own node alone: where hand-overs come
// after half of that as a rule, to watch the one in front would be in vain.
func (h hint) patience() time.Duration {
	if h.wait > maxPatience {
		return 0
	}
	return 2 * h.wait
}

// Waiters come in bursts: after somebody was seen, this many releases look for
// a successor before they leave.
const busyLooks = 8

// maxBlind is how often in a row a client takes a lock without looking who is
// there, at most. Whoever waits meanwhile may knock in vain: if that takes as long as
// a round of the client, each knock can meet a take.
const maxBlind = 8

// hintTable is bounded: when it is full it starts afresh.
type hintTable struct {
	mu sync.Mutex
	m  map[string]hint
}

const maxHints = 8192

func (t *hintTable) get(path string) hint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[path]
}

func (t *hintTable) update(path string, f func(*hint)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxHints {
		t.m = make(map[string]hint)
	}
	h := t.m[path]
	f(&h)
	if h == (hint{}) {
		delete(t.m, path)
		return
	}
	t.m[path] = h
}

func (t *hintTable) crowded(path string) {
	t.update(path, (*hint).crowded)
}

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
