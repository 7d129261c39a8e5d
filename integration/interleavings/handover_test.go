package interleavings

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// 3: H hands over to S while S gives up (T8). T4 commits first: S's leaving is
// the release, and the next waiter runs. T8 commits first: T4 fails NoNode and H
// hands over to the next.
func TestHandOverToOneThatGivesUpReachesTheNext(t *testing.T) {
	for _, first := range []string{"T4", "T8"} {
		t.Run(first+" first", func(t *testing.T) {
			scenario(t, func(w *world) {
				// given a hand-over and the leaving of the one whom it is for, both under way
				h := w.hold("H", at(5))
				s := w.ask("S", at(3))
				s.queued()
				n := w.ask("N", at(1))
				n.queued()
				handsOver := w.On(T4(users).From("H").Nth(1)).Hold()
				leaves := w.On(T8(users).From("S")).Hold()
				released := h.releases()
				w.reached(handsOver)
				s.cancel()
				w.reached(leaves)

				// when one comes first
				if first == "T4" {
					handsOver.Release()
					require.NoError(w, released())
					leaves.Release()
					require.ErrorIs(w, s.refused(), context.Canceled)
				} else {
					w.must(T4(users).From("H"))
					leaves.Release()
					require.ErrorIs(w, s.refused(), context.Canceled)
					handsOver.Release()
					require.NoError(w, released())
				}

				// then the next one holds
				n.granted()
				require.Equal(w, []string{"N"}, w.holders())
				require.Greater(w, n.token(), h.token())
			})
		})
	}
}

// 3, with T4 first and a caller of S that has left before S hears of it: S gives
// the lock on.
func TestGrantWhoseCallerHasLeftIsHandedOn(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that is granted before it watches itself, and another
		h := w.hold("H", at(5))
		arms := w.On(ArmsAny(users).From("S").Nth(1)).Hold()
		s := w.ask("S", at(3))
		w.reached(arms)
		n := w.ask("N", at(1))
		n.queued()
		h.release()

		// when its caller leaves before it hears of the grant
		s.cancel()
		require.ErrorIs(w, s.refused(), context.Canceled)
		require.Equal(w, []string{"S"}, w.holders())
		w.must(T4(users).From("S"))
		arms.Release()

		// then it hands over to the other
		n.granted()
		require.Equal(w, []string{"N"}, w.holders())
		require.Empty(w, s.told())
	})
}

// 4: S is granted by T4 and its session expires before it learns; the next waiter
// grants itself, and S reports the loss of its session, never a hold.
func TestGrantOfASessionThatExpiresBeforeItLearnsGoesToTheNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that is cut off as it is granted, before it hears of it
		h := w.hold("H", at(5))
		s := w.ask("S", at(3))
		s.queued()
		n := w.ask("N", at(1))
		n.queued()
		granted := w.On(Changed(users, s.id()).From("S")).DropEvent()
		returns := w.On(zktest.Op(zktest.Connect).From("S")).Hold()
		first := s.id()
		h.release()
		w.reached(granted)
		w.reached(returns)

		// when its session expires
		w.must(T3(users).From("N"))
		w.expire("S")

		// then the next one holds
		n.granted()

		// and when it comes back it queues anew, as one that has never held
		returns.Release()
		await[recipes.Requeued](s)
		require.Equal(w, 1, s.queued().Position)
		s.waits()
		require.NotEqual(w, first, s.id())
		require.Equal(w, []string{"N"}, w.holders())
		require.Zero(w, times[recipes.Lost](s))
		w.pass(short)
		n.release()
		require.Greater(w, s.token(), n.token())
	})
}

// 5: H lists {H, S}, a more important N joins and S re-decides (now behind N),
// and H hands over to S; S starts, N preempts S, nobody is stuck.
func TestHandOverPastAMoreImportantNewcomerStopsNobody(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder that is about to hand over to the only waiter that it has seen
		h := w.hold("H", at(5))
		s := w.ask("S", at(1))
		s.queued()
		handsOver := w.On(T4(users).From("H")).Hold()
		released := h.releases()
		w.reached(handsOver)

		// when a more important one joins and the waiter looks again
		n := w.ask("N", at(3))
		require.Equal(w, 1, n.queued().Position)
		w.disconnect("S")
		require.Equal(w, "N", await[recipes.Displaced](s).By.Owner)
		handsOver.Release()
		require.NoError(w, released())

		// then the waiter holds, is asked to go by the other, and goes
		s.granted()
		require.Equal(w, "N", await[recipes.PreemptAsked](s).By.Owner)
		await[recipes.PreemptSent](n)
		n.waits()
		s.release()
		require.Greater(w, n.token(), s.token())
	})
}

// 10: T4's reply is lost; when the client reconnects its node is gone, the
// release is reported done, the successor holds.
func TestReleaseWhoseReplyIsLostIsDone(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder, and two waiters
		h := w.hold("H", at(5))
		s := w.ask("S", at(3))
		s.queued()
		n := w.ask("N", at(1))
		n.queued()

		// when the reply to the hand-over is lost
		w.On(T4(users).From("H").Nth(1)).DropReply()
		w.never(T4(users).From("H").Nth(2))
		h.release()

		// then the first waiter holds, and the second one waits for it
		s.granted()
		n.waits()
		require.Equal(w, []string{"S"}, w.holders())
		require.Zero(w, times[recipes.Lost](h))
		w.pass(short)
		s.release()
		require.Greater(w, n.token(), s.token())
	})
}

// 10, for a waiter: its T8 is lost before it is executed, and sent again.
func TestLeavingWhoseRequestIsLostIsRepeated(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder, and two waiters
		h := w.hold("H", at(5))
		s := w.ask("S", at(3))
		s.queued()
		n := w.ask("N", at(1))
		n.queued()

		// when the first one leaves, and its connection breaks over that
		leaves := w.On(T8(users).From("S").Nth(1)).DropRequest()
		s.cancel()
		w.reached(leaves)

		// then it leaves all the same, and the other one is next
		require.ErrorIs(w, s.refused(), context.Canceled)
		w.eventually("S is gone", func() bool { return len(s.nodes()) == 0 })
		h.release()
		n.granted()
	})
}
