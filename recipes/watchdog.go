package recipes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"
)

// deadline is when whatever is held must have ended: before the server can
// expire the session.
func (s *session) deadline() instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadlineLocked()
}

func (s *session) deadlineLocked() instant {
	// planted-bug answer-is-a-touch: return s.lastAck.add(s.timeout - s.c.margin(s.timeout))
	return s.touches.known().add(s.timeout - s.c.margin(s.timeout))
}

// atRiskLocked reports whether holders should know that ZooKeeper is silent, or that
// their deadline is near all the same.
func (s *session) atRiskLocked(now instant) bool {
	return s.id != 0 && (now.sub(s.lastAck) > s.timeout/4 || s.deadlineLocked().sub(now) < s.timeout/16)
}

// watchdog closes links that are late, tells holders in time that they are at
// risk and then that they have lost, and gives up a session that the library
// is stuck with.
func (s *session) watchdog() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := s.clock.awake()
		s.mu.Lock()
		step := max(s.timeout/32, 5*time.Millisecond)
		end := s.deadlineLocked()
		timeout, l, epoch := s.timeout, s.link, s.epoch
		greeted := epoch > 0 && s.id != 0 && l != nil && s.lastAck >= l.born
		atRisk := s.atRiskLocked(now)
		news := atRisk != s.risk
		s.risk = atRisk
		exposed := s.down || atRisk
		stuck := s.id != 0 && now.sub(s.lastAck) > 2*timeout && now.sub(s.downFrom) > 2*timeout && (l == nil || now.sub(l.born) > 2*timeout)
		s.mu.Unlock()

		s.heartbeat(now)
		if l != nil {
			if err := l.late(now, timeout, greeted); err != nil {
				s.note(err)
				_ = l.Close()
			}
		}
		switch {
		case news && atRisk:
			s.warn(end)
		case news:
			s.reassure()
		}
		if now >= end { // planted-bug no-session-deadline: if false {
			s.lose(fmt.Errorf("no answer for %s", now.sub(s.lastAckNow()).Round(time.Millisecond)))
			s.greetAgain(l, now)
		} else {
			if exposed {
				s.loseExposed()
			}
			s.loseBlind(now)
			s.verify(now)
		}
		if stuck && s.timesDialled() == 0 {
			s.end(fmt.Errorf("%w: the client library is stuck", errSessionOver))
		}
		if s.unwanted(now) {
			s.end(fmt.Errorf("%w: given up, since the servers hang up on it: they have lost data, or have had no quorum for long", errSessionOver))
		}
		if now < end {
			step = min(step, max(end.sub(now), time.Millisecond))
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

// greetAgain gives up a connection over which the deadline has passed, if it is not new: nothing
// can be held before the deadline lies ahead again, and a greeting is the shortest way to that.
func (s *session) greetAgain(l *link, now instant) {
	if s.usable() && l != nil && now.sub(l.born) > s.timeoutNow()/8 {
		s.note(errors.New("the session's deadline has passed"))
		_ = l.Close()
	}
}

// heartbeat asks the leader for a sign of life; pings are answered by the server alone.
// It is a sync, which costs the servers next to nothing. Only when nothing has shown for long that
// the leader has a quorum, nor that sync either, a write follows that changes nothing: it shows that
// to the next syncs of all other clients as well.
func (s *session) heartbeat(now instant) {
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
		if err != nil && !s.isOver() && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			s.note(err)
		}
	}()
}

func (s *session) needsWrite() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touches.needsWrite(s.clock.now(), s.timeout)
}

// untilHeartbeatLocked returns how long there is no need for one: as long as other requests are answered.
func (s *session) untilHeartbeatLocked(now instant) time.Duration {
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
	return s.pace - now.sub(last)
}

// heartbeatPace varies a little: clients that have all connected at the same moment should
// not all find at the same moment that a write is due.
func heartbeatPace(timeout time.Duration) time.Duration {
	pace := timeout / beatInterval
	return pace - rand.N(pace/32+1)
}

func (s *session) nextHeartbeat(now instant) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untilHeartbeatLocked(now)
}

func (s *session) lastAckNow() instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastAck
}

func (s *session) timesDialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

func (s *session) timeoutNow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

func (s *session) holding() []tenant {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make([]tenant, 0, len(s.tenants))
	for t := range s.tenants {
		held = append(held, t)
	}
	return held
}

// warn tells holders that the session is in danger.
func (s *session) warn(end instant) {
	beside(s.holding(), func(t tenant) { t.atRisk(end.sub(s.clock.now())) })
}

// reassure tells holders that the danger is over.
func (s *session) reassure() {
	safe := slices.DeleteFunc(s.holding(), func(t tenant) bool { _, cares := t.(reassured); return !cares })
	beside(safe, func(t tenant) { t.(reassured).safe() })
}

// lose ends everything that is held.
func (s *session) lose(cause error) {
	beside(s.holding(), func(t tenant) { t.sessionLost(cause) })
}

// loseExposed ends what may be taken over while nobody can tell us: holds past
// their lease or past their grace.
func (s *session) loseExposed() {
	s.mu.Lock()
	exposed := s.down || s.risk
	s.mu.Unlock()
	if !exposed {
		return
	}
	now := s.clock.awake()
	overdue := slices.DeleteFunc(s.holding(), func(t tenant) bool { return !t.overdue(now) })
	beside(overdue, func(t tenant) { t.sessionLost(errExposed) })
}

// loseBlind ends what may have been taken over unheard of: nobody has been able to
// look for as long as a session lasts, though others got answers.
func (s *session) loseBlind(now instant) {
	blind := slices.DeleteFunc(s.holding(), func(t tenant) bool {
		e, ok := t.(evictable)
		return !ok || !e.blind(now)
	})
	beside(blind, func(t tenant) { t.sessionLost(errBlind) })
}

// Why a tenant is lost before the session is.
var (
	errExposed = errors.New("cut off after the end of the lease or grace")
	errBlind   = errors.New("no answer in time to the question whether it is held yet")
)

// check ends a tenant that does not certainly hold right now, with the time counted that the machine was suspended: a process
// that was stopped for long may come here before its timers have noticed. It does not ask ZooKeeper.
func (s *session) check(t tenant) {
	now := s.clock.awake()
	s.mu.Lock()
	end, silent := s.deadlineLocked(), now.sub(s.lastAck)
	exposed := s.down || s.atRiskLocked(now)
	s.mu.Unlock()
	e, _ := t.(evictable)
	switch {
	case now >= end:
		t.sessionLost(fmt.Errorf("no answer for %s", silent.Round(time.Millisecond)))
	case e != nil && e.blind(now):
		t.sessionLost(errBlind)
	case exposed && t.overdue(now):
		t.sessionLost(errExposed)
	}
}

// verify lets those look whether they hold still whose time has come.
func (s *session) verify(now instant) {
	s.mu.Lock()
	busy := s.verifying || !s.isReady || len(s.tenants) == 0
	s.mu.Unlock()
	if busy {
		return
	}
	var due []verifiable
	for _, t := range s.holding() {
		if v, ok := t.(verifiable); ok && v.verifyDue(now) {
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
			looks.Go(func() error { v.verify(s.c.closing); return nil })
		}
		_ = looks.Wait()
		s.mu.Lock()
		s.verifying = false
		s.mu.Unlock()
	})
}

// tellingTakes is how long the watchdog waits for listeners.
const tellingTakes = 20 * time.Millisecond

// beside calls f for all of these at the same time: a listener that blocks,
// though it must not, keeps neither the others nor the watchdog from their duty.
func beside(tenants []tenant, f func(tenant)) {
	if len(tenants) == 0 {
		return
	}
	var calls sync.WaitGroup
	for _, t := range tenants {
		calls.Go(func() { f(t) })
	}
	done := make(chan struct{})
	go func() {
		calls.Wait()
		close(done)
	}()
	timer := time.NewTimer(tellingTakes)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// hold registers a tenant, unless the session can no longer carry one.
func (s *session) hold(t tenant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overErr != nil || s.clock.awake() >= s.deadlineLocked() {
		return false
	}
	s.tenants[t] = struct{}{}
	return true
}

func (s *session) unhold(t tenant) {
	s.mu.Lock()
	delete(s.tenants, t)
	s.mu.Unlock()
}

// turnedAway is told that a server has hung up in place of a greeting. Servers
// without a quorum do that, and servers that have seen less than the session:
// from a backup, or new. The latter do it for as long as the session is tried.
func (s *session) turnedAway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rebuffs++; s.rebuffs == 1 {
		s.rebuffed = s.clock.now()
	}
}

// unwanted tells whether servers have hung up for so long that the session is
// better given up. Nothing is held by it any more; those that wait lose their
// place, should it only have been a long time without a quorum.
func (s *session) unwanted(now instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	const enough = 3 // a server that starts may forget a connection
	return s.id != 0 && s.rebuffs >= enough && now.sub(s.rebuffed) > max(2*s.timeout, time.Minute)
}
