package virtualtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The holder is cut off: it stops at its deadline, the server frees its node with
// the session, and the lock stays free for the delay after that.
func TestLockOfAHolderThatIsCutOffIsDelayedFromTheEndOfItsSession(t *testing.T) {
	run(t, func(w *world) {
		// given a holder with a session of 16s and a lock-delay of a minute, and a waiter
		const session, delay = 16 * time.Second, time.Minute
		holder, waiter := w.Program("holder", session), w.Program("waiter", long)
		held := holder.Do(lockguard.Requirement{Terms: priority.Terms{LockDelay: delay}}, untilCancelled)
		next := waiter.Do(lockguard.Requirement{}, untilCancelled)

		// when the network between it and the server is cut
		w.Partition("holder")
		virtual.LostBy(w.T, held.Returned())

		// then the waiter learns when the server has freed the lock, and until when
		w.Until(session + tick)
		told := virtual.Only[lock.Delayed](waiter)
		require.Equal(w, session+tick, w.Since(virtual.About[lock.Delayed](waiter).At))
		require.Equal(w, session+tick+delay, w.Since(told.Until))
		require.Equal(w, "holder", told.After[0].Owner)
		require.Nil(w, next.Hold())

		// and holds in that instant
		w.Until(session + tick + delay)
		require.Equal(w, []string{"18s Delayed", "1m18s Acquired"}, waiter.Told())
		require.Equal(w, session+tick+delay, next.Began())
	})
}
