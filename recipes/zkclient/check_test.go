package zkclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// heldSession has just had an answer from ZooKeeper, gets no more, and carries
// one hold. Nothing runs beside it: no watchdog notices what Check is to find.
func heldSession(held Tenant) *Session {
	c := &Client{cfg: Config{SessionTimeout: 16 * time.Second, Margin: 4 * time.Second}}
	s := &Session{c: c, id: 1, clock: newClock(), timeout: c.cfg.SessionTimeout, tenants: map[Tenant]struct{}{held: {}}, over: make(chan struct{})}
	s.lastAck = s.clock.now()
	s.touches.begin(s.lastAck)
	return s
}

func TestCheckFindsTheDeadlinePassedBeforeAnyTimerDoes(t *testing.T) {
	for name, pause := range map[string]func(*Session, time.Duration){
		"stopped":   func(_ *Session, d time.Duration) { <-time.After(d) },
		"suspended": func(s *Session, d time.Duration) { s.clock.before -= d },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []error
				held := fakeTenant(func(cause error) { told = append(told, cause) })
				s := heldSession(&held)
				close(s.over) // nothing is tidied up at a server
				pause(s, 11*time.Second)
				s.Check(&held)
				require.Empty(t, told, "a second before the deadline")

				pause(s, 2*time.Second)
				s.Check(&held)
				require.Len(t, told, 1)
				require.Error(t, told[0])
			})
		})
	}
}

// A strictTenant cannot be sure of anything while the session is cut off.
type strictTenant struct{ fakeTenant }

func (strictTenant) Overdue(Instant) bool { return true }

func TestCheckOfATenantThatIsOverdueEndsItInSilenceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		held := &strictTenant{func(cause error) { told = cause }}
		s := heldSession(held)
		s.Check(held)
		require.NoError(t, told)
		<-time.After(6 * time.Second) // a request may have preempted it, and taken the lock
		s.Check(held)
		require.ErrorContains(t, told, "cut off after the end of the lease or grace")
	})
}

// A hold whose reply came late, after the deadline, is none.
func TestSessionWhoseDeadlineHasPassedCarriesNoNewHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := fakeTenant(func(error) {})
		s := heldSession(&held)
		s.Unhold(&held)
		<-time.After(12*time.Second - 1)
		require.True(t, s.Hold(&held), "a moment before the deadline")
		s.Unhold(&held)
		<-time.After(1)
		require.False(t, s.Hold(&held))
		require.Empty(t, s.tenants)
	})
}
