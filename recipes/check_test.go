package recipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// heldGrant is a grant of the lock "orders" whose session has just had an
// answer from ZooKeeper, and hears nothing any more. Nothing runs beside it: no
// watchdog notices what Check is to find.
func heldGrant(notify func(Notice)) *Grant {
	c := &Client{cfg: Config{SessionTimeout: 16 * time.Second, Margin: 4 * time.Second}}
	s := &session{c: c, id: 1, clock: newClock(), timeout: c.cfg.SessionTimeout, tenants: map[tenant]struct{}{}, over: make(chan struct{})}
	close(s.over) // nothing is tidied up at a server
	g := &Grant{lock: newPriorityLock(c, "orders", ""), s: s, token: 7, notices: &notices{f: notify}}
	s.lastAck = s.clock.now()
	s.touches.begin(s.lastAck)
	g.leaseTo = s.lastAck.add(10 * time.Minute)
	s.tenants[(*grantTenant)(g)] = struct{}{}
	return g
}

func TestCheckFindsTheDeadlinePassedBeforeAnyTimerDoes(t *testing.T) {
	for name, pause := range map[string]func(*session, time.Duration){
		"stopped":   func(_ *session, d time.Duration) { <-time.After(d) },
		"suspended": func(s *session, d time.Duration) { s.clock.before -= d },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []Notice
				g := heldGrant(func(n Notice) { told = append(told, n) })
				pause(g.s, 11*time.Second)
				require.NoError(t, g.Check(), "a second before the deadline")

				pause(g.s, 2*time.Second)
				var lost *LostError
				require.ErrorAs(t, g.Check(), &lost)
				require.Equal(t, LossSession, lost.Reason)
				require.Equal(t, Token(7), lost.Token)
				require.Equal(t, []Notice{Lost{Err: lost}}, told)

				g.s.lastAck = g.s.clock.now()
				g.s.touches.begin(g.s.lastAck) // an answer that comes too late
				require.Equal(t, error(lost), g.Check(), "lost is lost")
				require.Len(t, told, 1)
			})
		})
	}
}

func TestCheckOfAHolderInSilenceCountsItsLeaseAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := heldGrant(nil)
		g.leaseTo = g.s.lastAck.add(2 * time.Second)
		<-time.After(3 * time.Second)
		require.NoError(t, g.Check(), "the lease is over, but nobody who asked was missed")

		<-time.After(3 * time.Second) // somebody may have asked, and taken the lock
		require.ErrorContains(t, g.Check(), "cut off after the end of the lease or grace")
	})
}

func TestCheckAfterReleaseSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := heldGrant(nil)
		g.state = stateReleased
		require.ErrorIs(t, g.Check(), ErrReleased)
		<-time.After(time.Minute)
		require.ErrorIs(t, g.Check(), ErrReleased, "what was given back is not lost")
	})
}

// A grant whose reply came late, after the deadline, is none.
func TestSessionWhoseDeadlineHasPassedCarriesNoNewHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := heldGrant(nil)
		delete(g.s.tenants, (*grantTenant)(g))
		g.s.over = make(chan struct{})
		<-time.After(12*time.Second - 1)
		require.True(t, g.s.hold((*grantTenant)(g)), "a moment before the deadline")
		g.s.unhold((*grantTenant)(g))
		<-time.After(1)
		require.False(t, g.s.hold((*grantTenant)(g)))
		require.Empty(t, g.s.tenants)
	})
}
