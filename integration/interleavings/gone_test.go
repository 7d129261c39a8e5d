package interleavings

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 11, at the server: each transaction contains the node of its request. When
// that is gone as the transaction comes, nothing happens.
func TestTransactionOfARequestThatIsGoneIsRefused(t *testing.T) {
	scenarios(t, map[string]func(w *world){
		"T3": func(w *world) {
			// given a waiter that is about to grant itself a lock that became free
			w.hold("H", at(5))
			victim := w.wait("V", at(3))
			n := w.wait("N", at(1))
			grants := w.On(T3(users).From("V")).Hold()
			w.expire("H")
			w.reached(grants)

			// when it is deleted
			w.evict(victim)
			grants.Release()

			// then the next one holds
			var evicted *lock.EvictedError
			require.ErrorAs(w, victim.Refused(), &evicted)
			require.Equal(w, users, evicted.Scope)
			n.Granted()
			require.Equal(w, []string{"N"}, w.holders())
		},
		"T4": func(w *world) {
			// given a holder that is about to hand over, and a waiter that it has not seen
			h := w.hold("H", at(5))
			s := w.wait("S", at(1))
			handsOver, released := h.releasesUpTo(T4(users).From("H"))
			n := w.wait("N", at(5))

			// when it is deleted, and that one grants itself
			w.evict(h)
			n.Granted()
			handsOver.Release()

			// then it has handed over nothing
			lost := lostBy(w, released())
			require.Equal(w, lock.LossDeleted, lost.Reason)
			require.Equal(w, h.Token(), lost.Token)
			s.waits()
			require.Equal(w, []string{"N"}, w.holders())
		},
		"T6": func(w *world) {
			// given a waiter that is about to preempt the holder
			h := w.hold("H", at(5))
			asks, victim := w.stops(T6(users).From("V"), "V", at(9))

			// when it is deleted
			w.evict(victim)
			asks.Release()

			// then the holder hears nothing of it
			require.ErrorAs(w, victim.Refused(), new(*lock.EvictedError))
			require.Empty(w, w.state().Holders[0].PreemptedBy)
			synctest.Wait()
			require.Zero(w, times[lock.PreemptRequested](h))
		},
		"T7": func(w *world) {
			// given a waiter that is about to take over
			h := w.hold("H", at(5))
			takes, victim := w.stops(T7(users).From("V"), "V", at(9), forceful)

			// when it is deleted
			w.evict(victim)
			takes.Release()

			// then the holder holds on
			require.ErrorAs(w, victim.Refused(), new(*lock.EvictedError))
			require.Equal(w, []string{"H"}, w.holders())
			synctest.Wait()
			require.Zero(w, times[lock.Lost](h))
			h.release()
		},
	})
}

// 11, without the end of the session: a T1 or T2 that succeeds when its caller
// no longer waits is undone.
func TestRequestThatSucceedsAfterItsCallerHasLeftIsUndone(t *testing.T) {
	scenarios(t, map[string]func(w *world){
		"T1": func(w *world) {
			// given a caller that leaves while the reply to its T1 is under way
			takes := w.On(T1(users).From("A").Nth(1)).HoldReply()
			a := w.ask("A", at(5))
			w.reached(takes)
			a.Cancel()
			require.ErrorIs(w, a.Refused(), context.Canceled)

			// when another one asks, and the reply comes
			b := w.wait("B", at(1))
			b.waits()
			takes.Release()

			// then that one holds
			b.Granted()
			require.Equal(w, []string{"B"}, w.holders())
			require.Empty(w, a.nodes())
		},
		"T2": func(w *world) {
			// given a caller that leaves while the reply to its T2 is under way
			h := w.hold("H", at(5))
			joins := w.On(T2(users).From("A").Nth(1)).HoldReply()
			a := w.ask("A", at(3))
			w.reached(joins)
			a.Cancel()
			require.ErrorIs(w, a.Refused(), context.Canceled)
			b := w.wait("B", at(1))

			// when the reply comes, and the holder leaves
			joins.Release()
			w.eventually("A's node is gone", func() bool { return len(a.nodes()) == 0 })
			h.release()

			// then the other one holds
			b.Granted()
		},
		"its reply never comes": func(w *world) {
			// given a caller that leaves after its connection broke at its T2
			h := w.hold("H", at(5))
			w.client("A")
			joins := w.On(T2(users).From("A").Nth(1)).DropReply()
			returns := w.On(zktest.Op(zktest.Connect).From("A")).Hold()
			a := w.ask("A", at(3))
			w.reached(joins)
			w.reached(returns)
			a.Cancel()
			require.ErrorIs(w, a.Refused(), context.Canceled)
			require.Len(w, a.nodes(), 1)

			// when it is connected again
			returns.Release()

			// then nothing is left of it
			w.eventually("A's node is gone", func() bool { return len(a.nodes()) == 0 })
			h.release()
		},
	})
}
