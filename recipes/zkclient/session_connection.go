package zkclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// dial connects to the next server. It waits between failed tries: the library
// itself would not, or would wait a whole second without jitter.
func (s *Session) dial(network, address string, _ time.Duration) (net.Conn, error) {
	s.mu.Lock()
	tries := s.tries
	s.tries++
	if s.link != nil && s.link.wasMute() {
		s.mutes++
	}
	// A server that has just started may accept a connection and forget it: the
	// first tries are short, the later ones patient with a busy ensemble.
	limit := min(max(s.timeout/3, 100*time.Millisecond), time.Second<<min(s.mutes, 6))
	s.mu.Unlock()
	// A server that greets and hangs up is left in peace like one that cannot be reached.
	if tries += int(s.c.greetings.Load()); tries > 0 {
		pause := min(10*time.Millisecond<<min(tries, 10), time.Second, limit)
		pause = pause/2 + rand.N(pause/2+1)
		select {
		case <-time.After(pause):
		case <-s.over:
		}
	}
	if s.IsOver() {
		return nil, errSecondSession
	}
	// Not the client's: what is cleaned up while it closes needs connections, too.
	ctx, cancel := context.WithTimeout(s.living, limit)
	defer cancel()
	conn, err := s.c.cfg.Dialer(ctx, network, address)
	if err != nil {
		s.note(err)
		return nil, err
	}
	l := newLink(conn, s)
	l.server, l.patience = address, limit
	s.mu.Lock()
	previous := s.link
	s.link = l
	s.mu.Unlock()
	if previous != nil {
		_ = previous.Close() // the library leaks the old one after some errors
	}
	return l, nil
}

// mayGreet reports whether a connect request with this session id may go out.
func (s *Session) mayGreet(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overErr == nil && id == s.id
}

// greeted takes each connect response. The goroutine that reads calls it.
func (s *Session) greeted(asked Instant, id int64, timeout time.Duration, password []byte) {
	if id == 0 {
		s.end(fmt.Errorf("%w: it expired at the server", ErrSessionOver))
		return
	}
	s.c.greetings.Add(1)
	s.mu.Lock()
	first := s.id == 0
	if !first {
		// A new leader goes by the timeout that the session began with.
		timeout = min(timeout, s.timeout)
	}
	s.id, s.timeout, s.password = id, timeout, password
	s.lastAck = max(s.lastAck, asked)
	s.touches.greeted(asked, first, timeout)
	s.tries, s.mutes, s.rebuffs = 0, 0, 0
	s.mu.Unlock()
	if first && timeout != s.c.cfg.SessionTimeout {
		s.c.log.Warn("ZooKeeper granted another session timeout than asked for",
			"asked", s.c.cfg.SessionTimeout, "granted", timeout)
	}
}

// acked notes an answer that came through the leader over the link.
func (s *Session) acked(l *link, a leaderReply, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAck = max(s.lastAck, a.sent)
	if write {
		s.touches.wrote(a.sent)
	}
	if s.link == l && s.touches.tellsMore(a.sent, s.timeout) { // else the next connection's answers have begun
		a.answered = s.clock.awake()
		s.touches.answered(a, s.timeout)
	}
}

func (s *Session) refused(err error) {
	s.note(err)
	s.c.log.Error("cannot use ZooKeeper", "error", err)
}

func (s *Session) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr != nil && errors.Is(err, zk.ErrConnectionClosed) {
		return // that follows from what is known
	}
	s.lastErr = err
}

// event is the library's callback. It must not block, nor call the library.
func (s *Session) event(e zk.Event) {
	switch {
	case e.Type != zk.EventSession:
		s.watches.fire(e)
	case e.State == zk.StateHasSession:
		s.mu.Lock()
		s.epoch++
		epoch := s.epoch
		s.mu.Unlock()
		go s.settle(epoch)
	case e.State == zk.StateDisconnected:
		s.disconnected()
	}
}

// settle makes a fresh connection usable: no read may come from before what
// this session has already seen, or from before its own lost replies.
func (s *Session) settle(epoch int) {
	s.mu.Lock()
	conn, l := s.conn, s.link
	s.mu.Unlock()
	if _, err := conn.Sync("/"); err != nil {
		if !s.IsOver() { // else the request that closes the session is under way over it, and finish closes it
			_ = l.Close() // most likely it is closed already; the next connection settles
		}
		return
	}
	s.mu.Lock()
	if s.epoch != epoch || s.overErr != nil || s.isReady {
		s.mu.Unlock()
		return
	}
	s.isReady = true
	close(s.ready)
	s.cut = make(chan struct{})
	wasDown := s.clock.now().Sub(s.downFrom)
	s.down, s.lastErr = false, nil
	id, timeout := s.id, s.timeout
	s.mu.Unlock()
	s.c.connections.Add(1)
	s.c.greetings.Store(0)
	s.heartbeat(s.clock.now())
	s.c.time.reconnected()
	s.watches.reconnected()
	s.c.log.Info("connected to ZooKeeper", "session", sessionName(id), "timeout", timeout,
		"after", wasDown.Round(time.Millisecond))
}

// lost takes the end of each connection. The call may be late: by then the next
// one may be ready.
func (s *Session) lost(l *link) {
	s.disconnectedIf(func() bool { return s.link == l && s.isReady })
}

func (s *Session) disconnected() { s.disconnectedIf(func() bool { return true }) }

// disconnectedIf asks with s.mu held.
func (s *Session) disconnectedIf(concerned func() bool) {
	s.mu.Lock()
	if !concerned() {
		s.mu.Unlock()
		return
	}
	s.epoch++ // what still settles, settles a connection that is gone
	if s.isReady {
		s.isReady = false
		s.ready = make(chan struct{})
		close(s.cut)
	}
	fresh := !s.down
	if fresh {
		s.down, s.downFrom = true, s.clock.now()
	}
	id, cause, ready := s.id, s.lastErr, s.ready
	s.mu.Unlock()
	s.watches.disconnected()
	for _, t := range s.holding() {
		if t, ok := t.(Evictable); ok {
			t.Blink()
		}
	}
	if s.Usable() { // the next connection is settled already: what its watchers have read since may be older than this
		s.watches.reconnected()
	}
	if fresh && !s.IsOver() {
		attrs := []any{"session", sessionName(id)}
		if cause != nil { // the server may have hung up without a word
			attrs = append(attrs, "cause", cause)
		}
		go s.tellOutage(ready)
		s.c.log.Warn("connection to ZooKeeper lost; holding on until the session's deadline", attrs...)
	}
	go s.LoseExposed()
}
