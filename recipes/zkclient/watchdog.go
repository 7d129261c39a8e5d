package zkclient

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"
)

// Deadline is when whatever is held must have ended: before the server can
// expire the session.
func (s *Session) Deadline() Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadlineLocked()
}

func (s *Session) deadlineLocked() Instant {
	// planted-bug answer-is-a-touch: return s.lastAck.Add(s.timeout - s.c.margin(s.timeout))
	return s.touches.known().Add(s.timeout - s.c.margin(s.timeout))
}

// atRiskLocked reports whether holders should know that ZooKeeper is silent, or that
// their deadline is near all the same.
func (s *Session) atRiskLocked(now Instant) bool {
	return s.id != 0 && (now.Sub(s.lastAck) > s.timeout/4 || s.deadlineLocked().Sub(now) < s.timeout/16)
}

// watchdog closes links that are late, tells holders in time that they are at
// risk and then that they have lost, and gives up a session that the library
// is stuck with.
func (s *Session) watchdog() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := s.clock.awake()
		seen := s.checkUp(now)
		l, end := seen.link, seen.end

		s.heartbeat(now)
		if l != nil {
			if err := l.late(now, seen.timeout, seen.greeted); err != nil {
				s.note(err)
				_ = l.Close()
			}
		}
		switch {
		case seen.changed && seen.atRisk:
			s.warn(end)
		case seen.changed:
			s.reassure()
		}
		if now >= end { // planted-bug no-session-deadline: if false {
			s.lose(fmt.Errorf("no answer for %s", now.Sub(s.lastAckNow()).Round(time.Millisecond)))
			s.greetAgain(l, now)
		} else {
			if seen.exposed {
				s.LoseExposed()
			}
			s.loseBlind(now)
			s.verify(now)
		}
		if seen.stuck && s.timesDialled() == 0 {
			s.end(fmt.Errorf("%w: the client library is stuck", ErrSessionOver))
		}
		if s.unwanted(now) {
			s.end(
				fmt.Errorf("%w: given up, since the servers hang up on it: they have lost data, or have had no quorum for long",
					ErrSessionOver))
		}
		step := seen.step
		if now < end {
			step = min(step, end.Sub(now))
		}
		step = min(step, max(s.nextHeartbeat(now), time.Millisecond))
		timer.Reset(step)
		select {
		case <-timer.C:
		case <-s.over:
			return
		}
	}
}

// A checkup is what the watchdog sees of its session.
type checkup struct {
	step    time.Duration // until the next one, at most
	end     Instant       // of the holds
	timeout time.Duration // of the session
	link    *link         // nil: there is none
	greeted bool          // on this link
	atRisk  bool          // the holders are
	changed bool          // atRisk is other than it was
	exposed bool
	stuck   bool // the library is
}

// checkUp takes note of whether the holders are at risk.
func (s *Session) checkUp(now Instant) checkup {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, long, end := s.link, 2*s.timeout, s.deadlineLocked()
	atRisk := s.atRiskLocked(now)
	changed := atRisk != s.risk
	s.risk = atRisk
	return checkup{
		step:    max(s.timeout/32, 5*time.Millisecond),
		end:     end,
		timeout: s.timeout,
		link:    l,
		greeted: s.epoch > 0 && s.id != 0 && l != nil && s.lastAck >= l.born,
		atRisk:  atRisk,
		changed: changed,
		exposed: s.down || atRisk,
		stuck: s.id != 0 && now.Sub(s.lastAck) > long && now.Sub(s.downFrom) > long &&
			(l == nil || now.Sub(l.born) > long),
	}
}

// greetAgain gives up a connection over which the deadline has passed, if it is not new: nothing
// can be held before the deadline lies ahead again, and a greeting is the shortest way to that.
func (s *Session) greetAgain(l *link, now Instant) {
	if s.Usable() && l != nil && now.Sub(l.born) > s.TimeoutNow()/8 {
		s.note(errors.New("the session's deadline has passed"))
		_ = l.Close()
	}
}

// heartbeat asks the leader for a sign of life; pings are answered by the server alone.
// It is a sync, which costs the servers next to nothing. Only when nothing has shown for long that
// the leader has a quorum, nor that sync either, a write follows that changes nothing: it shows that
// to the next syncs of all other clients as well.
func (s *Session) heartbeat(now Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.untilHeartbeatLocked(now) > 0 {
		return
	}
	s.beating, s.beat, s.pace = true, now, heartbeatPace(s.timeout)
	conn, root := s.conn, s.c.root
	go func() {
		_, err := conn.Sync("/") // the link notices the answers
		if err == nil && s.needsWrite() {
			_, err = conn.Multi(&zk.CheckVersionRequest{Path: root, Version: -1})
		}
		s.mu.Lock()
		s.beating = false
		s.mu.Unlock()
		if err != nil && !s.IsOver() && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			s.note(err)
		}
	}()
}

func (s *Session) needsWrite() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touches.needsWrite(s.clock.now(), s.timeout)
}

// untilHeartbeatLocked returns how long there is no need for one: as long as other requests are answered.
func (s *Session) untilHeartbeatLocked(now Instant) time.Duration {
	if !s.isReady || s.beating {
		return s.timeout
	}
	last := s.beat
	if !s.touches.needsWrite(now, s.timeout) {
		last = max(last, s.lastAck)
	}
	if s.pace == 0 {
		s.pace = heartbeatPace(s.timeout)
	}
	return s.pace - now.Sub(last)
}

// heartbeatPace varies a little: clients that have all connected at the same moment should
// not all find at the same moment that a write is due.
func heartbeatPace(timeout time.Duration) time.Duration {
	pace := timeout / beatInterval
	return pace - rand.N(pace/32+1)
}

func (s *Session) nextHeartbeat(now Instant) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untilHeartbeatLocked(now)
}

func (s *Session) lastAckNow() Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastAck
}

func (s *Session) timesDialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

// TimeoutNow is the timeout that the servers have granted; before they have, the one that is asked for.
func (s *Session) TimeoutNow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Check ends a tenant that does not certainly hold right now, with the time counted that the machine was suspended: a
// process that was stopped for long may come here before its timers have noticed. It does not ask ZooKeeper.
func (s *Session) Check(t Tenant) {
	now := s.clock.awake()
	s.mu.Lock()
	end, silent := s.deadlineLocked(), now.Sub(s.lastAck)
	exposed := s.down || s.atRiskLocked(now)
	s.mu.Unlock()
	e, _ := t.(Evictable)
	switch {
	case now >= end:
		t.SessionLost(fmt.Errorf("no answer for %s", silent.Round(time.Millisecond)))
	case e != nil && e.Blind(now):
		t.SessionLost(errBlind)
	case exposed && t.Overdue(now):
		t.SessionLost(errExposed)
	}
}

// verify lets those look whether they hold still whose time has come.
func (s *Session) verify(now Instant) {
	s.mu.Lock()
	busy := s.verifying || !s.isReady || len(s.tenants) == 0
	s.mu.Unlock()
	if busy {
		return
	}
	var due []Verifiable
	for _, t := range s.holding() {
		if v, ok := t.(Verifiable); ok && v.VerifyDue(now) {
			due = append(due, v)
		}
	}
	if len(due) == 0 {
		return
	}
	s.mu.Lock()
	s.verifying = true
	s.mu.Unlock()
	s.c.backlog.Go(func() {
		var looks errgroup.Group
		looks.SetLimit(16)
		for _, v := range due {
			looks.Go(func() error { v.Verify(s.c.closing); return nil })
		}
		_ = looks.Wait()
		s.mu.Lock()
		s.verifying = false
		s.mu.Unlock()
	})
}

// turnedAway is called when a server has hung up in place of a greeting.
// Servers without a quorum do that, and servers that have seen less than the
// session: from a backup, or new. The latter do it for as long as the session
// is tried.
func (s *Session) turnedAway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rebuffs++; s.rebuffs == 1 {
		s.rebuffed = s.clock.now()
	}
}

// unwanted tells whether servers have hung up for so long that the session is
// better given up. Nothing is held by it any more; those that wait lose their
// place, should it only have been a long time without a quorum.
func (s *Session) unwanted(now Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	const enough = 3 // a server that starts may forget a connection
	return s.id != 0 && s.rebuffs >= enough && now.Sub(s.rebuffed) > max(2*s.timeout, time.Minute)
}
