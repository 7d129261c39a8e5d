package virtualtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// The holder is cut off: it stops at its deadline, the server frees its node with
// the session, and the lock stays free for the delay after that.
func TestLockOfAHolderThatIsCutOffIsDelayedFromTheEndOfItsSession(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder with a session of 16s and a lock-delay of a minute, and a waiter
		const session, delay = 16 * time.Second, time.Minute
		holder, waiter := w.program("holder", session), w.program("waiter", long)
		held := holder.do(lockguard.Requirement{LockDelay: delay}, untilCancelled)
		next := waiter.do(lockguard.Requirement{}, untilCancelled)

		// when the network between it and the server is cut
		w.zk.Partition("holder")
		lostBy(t, held.returned())

		// then the waiter is told when the server has freed the lock, and until when
		w.until(session + tick)
		told := only[lockguard.Delayed](waiter)
		require.Equal(t, session+tick, told.At.Sub(w.start))
		require.Equal(t, session+tick+delay, told.Until.Sub(w.start))
		require.Equal(t, "holder", told.After[0].Owner)
		require.Nil(t, next.hold())

		// and holds in that instant
		w.until(session + tick + delay)
		require.Equal(t, []string{"18s Delayed", "1m18s Acquired"}, waiter.told())
		require.Equal(t, session+tick+delay, next.began())
	})
}

// Each lock of several has its own delay, and the whole waits for the longest.
func TestSeveralLocksWaitForTheDelayOfEach(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		holder, waiter := w.program("holder", 10*time.Second), w.program("waiter", long)
		held, err := holder.guard.AcquireAll(t.Context(), []lockguard.Requirement{
			{Scope: "a", LockDelay: time.Minute}, {Scope: "b", LockDelay: 2 * time.Minute},
		})
		require.NoError(t, err)
		require.True(t, w.zk.Expire(holder.session().ID))
		<-held.Context().Done()
		require.Error(t, held.Release(t.Context()))

		began := w.now()
		got, err := waiter.guard.AcquireAll(t.Context(), []lockguard.Requirement{{Scope: "b"}, {Scope: "a"}})
		require.NoError(t, err)
		// the delay of b begins when somebody asks for b: when a is held
		require.Equal(t, 3*time.Minute, (w.now() - began).Truncate(time.Second))
		require.NoError(t, got.Release(t.Context()))
	})
}

// A holder that gives its lock away in its grace is no unclean end, one from whom
// it is taken is.
func TestTakeoverAfterTheGraceIsDelayed(t *testing.T) {
	for name, c := range map[string]struct {
		cleanup time.Duration
		told    []string
	}{
		"goes in its grace":  {time.Minute, []string{"0s PreemptSent", "1m0.01s Acquired"}},
		"outstays its grace": {time.Hour, []string{"0s PreemptSent", "10m0s TakenOver", "10m0s Delayed", "15m0s Acquired"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				holder, urgent := w.program("holder", long), w.program("urgent", long)
				held := holder.do(lockguard.Requirement{LockDelay: 5 * time.Minute, CleanupTimeout: 10 * time.Minute}, untilCancelled, lasting(c.cleanup))
				next := urgent.do(lockguard.Requirement{Priority: 5, Forceful: true}, untilCancelled)
				require.Error(t, held.returned())
				w.until(2 * time.Hour)
				require.NotNil(t, next.hold())
				require.Equal(t, c.told, urgent.told())
			})
		})
	}
}
