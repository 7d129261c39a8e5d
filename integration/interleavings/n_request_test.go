package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N1: T1 is executed in one session, whose client comes back in another.
func TestGrantOfASessionThatIsOverCountsForNothingInTheNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a client that took the lock and never heard of it
		w.client("A")
		takes := w.On(T1(users).From("A").Nth(1)).DropReply()
		returns := w.On(zktest.Op(zktest.Connect).From("A").Nth(1)).Hold()
		a := w.ask("A", at(9))
		w.reached(takes)
		w.reached(returns)
		first := a.id()

		// when its session expires before it is back, and another takes the lock
		w.expire("A")
		b := w.hold("B", at(1), cleanup(time.Hour))
		returns.Release()

		// then it does not hold, but queues under a new name, and holds when its turn has come
		require.Equal(w, 1, a.Queued().Position)
		a.waits()
		require.NotEqual(w, first, a.id())
		require.Equal(w, []string{"B"}, w.holders())
		b.release()
		require.NotEqual(w, first, a.Granted().ID())
		require.Greater(w, a.Token(), b.Token())
	})
}

// N2: an administrator deletes the node of a waiter while T4 to it is under way.
func TestWaiterWhoseNodeIsDeletedWhileItIsGrantedGetsAnErrorAndTheNextOneTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder that hands over to the first of two waiters
		h := w.hold("H", at(5))
		victim, next := w.ask("victim", at(3)), w.ask("next", at(1))
		victim.Queued()
		next.Queued()
		handsOver, released := h.releasesUpTo(T4(users).From("H").Nth(1))

		// when the first one's node is deleted before that is done
		w.evict(victim)
		require.ErrorAs(w, victim.Refused(), new(*recipes.EvictedError))
		next.waits()
		handsOver.Release()

		// then the lock goes to the second
		require.NoError(w, released())
		require.Greater(w, next.Token(), h.Token())
		require.Equal(w, []string{"next"}, w.holders())
	})
}
