package zktest

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A clock is the server's time. Inside a bubble of testing/synctest it is the
// bubble's. It is not safe for concurrent use.
type clock struct {
	start  time.Time
	frozen bool
	added  time.Duration // by Advance
}

func newClock(frozen bool) clock { return clock{start: time.Now(), frozen: frozen} }

// elapsed is the time since the server began, to the millisecond, as in Java.
func (c *clock) elapsed() time.Duration {
	d := c.added
	if !c.frozen {
		d += time.Since(c.start)
	}
	return d.Truncate(time.Millisecond)
}

// now is the time that goes into nodes, in milliseconds since 1970.
func (c *clock) now() int64 {
	at := c.start.Add(c.added)
	if !c.frozen {
		at = time.Now().Add(c.added)
	}
	return at.UnixMilli()
}

// Advance moves the server's clock forward, at once. Sessions that were not
// heard of for their timeout, rounded up to a tick, expire: no client can send a
// ping meanwhile. Containers and nodes with a time to live are swept, as often
// as they would have been. A negative d panics.
func (s *Server) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("zktest: Advance(%s): time does not go back", d))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.added += d
	s.expire()
	for range 1 + d/s.opts.sweep {
		if !s.sweep() {
			break
		}
	}
}

// Sweep deletes the containers that are empty and the nodes whose time to live
// is over, as the server does by itself once a minute (SweepInterval).
func (s *Server) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
}

// sweep tells whether it has found anything.
func (s *Server) sweep() bool {
	if s.closed || s.down {
		return false
	}
	expired := s.leader.tree.Expired(s.clock.now())
	for _, path := range expired {
		s.write(&zkwire.Request{Op: zkwire.OpDeleteContainer, Path: path}, tree.Caller{})
	}
	return len(expired) > 0
}

func (s *Server) armSweeper() {
	if s.clock.frozen {
		return
	}
	if s.sweeper != nil {
		s.sweeper.Reset(s.opts.sweep)
		return
	}
	s.sweeper = time.AfterFunc(s.opts.sweep, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sweep()
		if !s.closed && !s.down {
			s.sweeper.Reset(s.opts.sweep)
		}
	})
}
