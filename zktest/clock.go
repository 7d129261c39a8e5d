package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
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

// Advance moves the server's clock forward. Sessions that were not heard of
// for their timeout expire: on a clock that is not frozen these are all whose
// timeout is shorter than d, since nobody could send a ping meanwhile.
// Containers and nodes with a time to live are swept.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.added += d
	s.expire()
	s.sweep()
}

// Sweep deletes the containers that are empty and the nodes whose time to live
// is over, as the server does by itself once a minute (SweepInterval).
func (s *Server) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
}

func (s *Server) sweep() {
	if s.closed || s.down {
		return
	}
	for _, path := range s.leader.tree.Expired(s.clock.now()) {
		s.write(&wire.Request{Op: wire.OpDeleteContainer, Path: path}, tree.Caller{})
	}
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
