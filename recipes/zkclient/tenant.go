package zkclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Tenant is something that is held by virtue of a session, and has to end
// before the session can. Its methods are called without locks, from any
// goroutine, and must not block.
type Tenant interface {
	// Holding names what is held, for people.
	Holding() string
	// Overdue reports whether it may be taken away without learning of it, were
	// the session cut off at that time.
	Overdue(now Instant) bool
	// AtRisk tells that ZooKeeper has been silent for long, and what is left.
	AtRisk(left time.Duration)
	// SessionLost ends it: the session has ended, or may have.
	SessionLost(cause error)
}

// A Reassured tenant is also notified when ZooKeeper answers again after
// AtRisk.
type Reassured interface{ Safe() }

// An Evictable tenant can be taken away while the session lives. It learns of
// that from its own node.
type Evictable interface {
	Tenant
	// Blink notes that its node may change unheard of until it is looked at again.
	Blink()
	// Blind reports whether that should have been done by now.
	Blind(now Instant) bool
}

// A Verifiable tenant looks now and then whether ZooKeeper still says that it holds.
type Verifiable interface {
	Tenant
	// VerifyDue reports whether it is time to look.
	VerifyDue(now Instant) bool
	// Verify looks. It ends the tenant that does not hold.
	Verify(ctx context.Context)
}

// Hold registers a tenant, unless the session can no longer carry one.
func (s *Session) Hold(t Tenant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overErr != nil || s.clock.awake() >= s.deadlineLocked() {
		return false
	}
	s.tenants[t] = struct{}{}
	return true
}

// Unhold forgets a tenant, which has ended.
func (s *Session) Unhold(t Tenant) {
	s.mu.Lock()
	delete(s.tenants, t)
	s.mu.Unlock()
}

func (s *Session) holding() []Tenant {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make([]Tenant, 0, len(s.tenants))
	for t := range s.tenants {
		held = append(held, t)
	}
	return held
}

// warn tells holders that the session is in danger.
func (s *Session) warn(end Instant) {
	beside(s.holding(), func(t Tenant) { t.AtRisk(end.Sub(s.clock.now())) })
}

// reassure tells holders that the danger is over.
func (s *Session) reassure() {
	safe := slices.DeleteFunc(s.holding(), func(t Tenant) bool { _, cares := t.(Reassured); return !cares })
	beside(safe, func(t Tenant) { t.(Reassured).Safe() })
}

// lose ends everything that is held.
func (s *Session) lose(cause error) {
	beside(s.holding(), func(t Tenant) { t.SessionLost(cause) })
}

// LoseExposed ends what may be taken over while the client cannot learn of it:
// holds past their lease or past their grace.
func (s *Session) LoseExposed() {
	s.mu.Lock()
	exposed := s.down || s.risk
	s.mu.Unlock()
	if !exposed {
		return
	}
	now := s.clock.awake()
	overdue := slices.DeleteFunc(s.holding(), func(t Tenant) bool { return !t.Overdue(now) })
	beside(overdue, func(t Tenant) { t.SessionLost(errExposed) })
}

// loseBlind ends what may have been taken over unnoticed: no read of it was
// answered for as long as a session lasts, though other requests got answers.
func (s *Session) loseBlind(now Instant) {
	blind := slices.DeleteFunc(s.holding(), func(t Tenant) bool {
		e, ok := t.(Evictable)
		return !ok || !e.Blind(now)
	})
	beside(blind, func(t Tenant) { t.SessionLost(errBlind) })
}

// Why a tenant is lost before the session is.
var (
	errExposed = errors.New("cut off after the end of the lease or grace")
	errBlind   = errors.New("no answer in time to the question whether it is held yet")
)

// tellingTakes is how long the watchdog waits for listeners.
const tellingTakes = 20 * time.Millisecond

// beside calls f for all of these at the same time: a listener that blocks,
// though it must not, keeps neither the others nor the watchdog from their duty.
func beside(tenants []Tenant, f func(Tenant)) {
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
