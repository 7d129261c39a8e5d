package zktest

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A session is a client as the server knows it. Its fields belong to the
// server's lock.
type session struct {
	id       int64
	password []byte
	timeout  time.Duration
	expires  time.Duration // on the server's clock, at a whole tick
	conn     *conn         // nil while it has none
	stalled  bool          // nothing that it sends keeps it alive
	over     bool          // expired or closed; a lagging listener may not know yet
}

// newSession begins a session. The caller commits it.
func (s *Server) newSession(timeout time.Duration) *session {
	password := make([]byte, 16)
	_, _ = rand.Read(password) // never fails
	x := &session{id: s.nextSession, password: password, timeout: timeout}
	s.nextSession++
	s.sessions[x.id] = x
	s.touch(x)
	return x
}

// firstSession is made as ZooKeeper's are: the number of the server, which is
// 1, and the time.
func firstSession(now int64) int64 { return 1<<56 | int64(uint64(now)<<24>>8) }

func (x *session) knows(password []byte) bool {
	return subtle.ConstantTimeCompare(x.password, password) == 1
}

// touch keeps a session alive. Expiry is rounded up to the next whole tick.
func (s *Server) touch(x *session) {
	if !x.stalled && !x.over {
		s.renew(x)
	}
}

// renew gives a session its whole timeout.
func (s *Server) renew(x *session) {
	at := (s.clock.elapsed() + x.timeout).Truncate(s.opts.tick) + s.opts.tick
	if at <= x.expires {
		return
	}
	x.expires = at
	s.armExpiry(at)
}

// armExpiry makes sure that the server checks the sessions at this time or
// before.
func (s *Server) armExpiry(at time.Duration) {
	if s.clock.frozen || s.down || s.expiryAt != 0 && s.expiryAt <= at {
		return
	}
	s.expiryAt = at
	wait := max(at-s.clock.elapsed(), 0)
	if s.expiry == nil {
		s.expiry = time.AfterFunc(wait, s.expiryDue)
		return
	}
	s.expiry.Reset(wait)
}

func (s *Server) expiryDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
}

// expire ends the sessions whose time is over and arms the timer for the next.
func (s *Server) expire() {
	if s.closed || s.down {
		return
	}
	now := s.clock.elapsed()
	var over []*session
	for _, x := range s.sessions {
		if x.expires <= now {
			over = append(over, x)
		}
	}
	slices.SortFunc(over, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.id, b.id))
	})
	for _, x := range over {
		s.endSession(x)
	}
	s.expiryAt = 0
	next := time.Duration(0)
	for _, x := range s.sessions {
		if next == 0 || x.expires < next {
			next = x.expires
		}
	}
	if next != 0 {
		s.armExpiry(next)
	}
}

// endSession deletes a session and its ephemeral nodes, in one transaction. Its
// connection is cut where that is known.
func (s *Server) endSession(x *session) {
	delete(s.sessions, x.id)
	x.over = true
	t := s.next()
	t.closed = x
	effects := deleteEphemerals(s.leader.tree, x.id, &t)
	s.commit(t, effects)
}

// deleteEphemerals deletes the ephemeral nodes of a session in a transaction.
func deleteEphemerals(on *tree.Tree, session int64, t *transaction) []tree.Effect {
	var effects []tree.Effect
	for _, path := range on.Ephemerals(session) {
		change := tree.Change{Op: zkwire.OpDelete, Path: path}
		t.changes = append(t.changes, change)
		effects = append(effects, on.Apply(change, t.zxid, t.now))
	}
	return effects
}
