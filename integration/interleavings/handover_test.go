package interleavings

import (
	"context"
	"fmt"
	"testing"
	"time"

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
				s := w.wait("S", at(3))
				n := w.wait("N", at(1))
				handsOver := w.On(T4(users).From("H").Nth(1)).Hold()
				leaves := w.On(T8(users).From("S")).Hold()
				released := h.releases()
				w.reached(handsOver)
				s.Cancel()
				w.reached(leaves)

				// when one comes first
				if first == "T4" {
					handsOver.Release()
					require.NoError(w, released())
					leaves.Release()
					require.ErrorIs(w, s.Refused(), context.Canceled)
				} else {
					w.must(T4(users).From("H"))
					leaves.Release()
					require.ErrorIs(w, s.Refused(), context.Canceled)
					handsOver.Release()
					require.NoError(w, released())
				}

				// then the next one holds
				n.Granted()
				require.Equal(w, []string{"N"}, w.holders())
				require.Greater(w, n.Token(), h.Token())
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
		arms, s := w.stops(ArmsAny(users).From("S").Nth(1), "S", at(3))
		n := w.wait("N", at(1))
		h.release()

		// when its caller leaves before it hears of the grant
		s.Cancel()
		require.ErrorIs(w, s.Refused(), context.Canceled)
		require.Equal(w, []string{"S"}, w.holders())
		w.must(T4(users).From("S"))
		arms.Release()

		// then it hands over to the other
		n.Granted()
		require.Equal(w, []string{"N"}, w.holders())
		require.Empty(w, s.List())
	})
}

// 4: S is granted by T4 and its session expires before it learns; the next waiter
// grants itself, and S reports the loss of its session, never a hold.
func TestGrantOfASessionThatExpiresBeforeItLearnsGoesToTheNext(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that is cut off as it is granted, before it hears of it
		h := w.hold("H", at(5))
		s := w.wait("S", at(3))
		n := w.wait("N", at(1))
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
		n.Granted()

		// and when it comes back it queues anew, as one that has never held
		returns.Release()
		await[recipes.Requeued](s)
		require.Equal(w, 1, s.Queued().Position)
		s.waits()
		require.NotEqual(w, first, s.id())
		require.Equal(w, []string{"N"}, w.holders())
		require.Zero(w, times[recipes.Lost](s))
		n.handsOverTo(s)
	})
}

// 5: H lists {H, S}, a more important N joins and S re-decides (now behind N),
// and H hands over to S; S starts, N preempts S, nobody is stuck.
func TestHandOverPastAMoreImportantNewcomerStopsNobody(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder that is about to hand over to the only waiter that it has seen
		h := w.hold("H", at(5))
		s := w.wait("S", at(1))
		handsOver, released := h.releasesUpTo(T4(users).From("H"))

		// when a more important one joins and the waiter looks again
		n := w.ask("N", at(3))
		require.Equal(w, 1, n.Queued().Position)
		w.disconnect("S")
		require.Equal(w, "N", await[recipes.Displaced](s).By.Owner)
		handsOver.Release()
		require.NoError(w, released())

		// then the waiter holds, is asked to go by the other, and goes
		s.Granted()
		require.Equal(w, "N", await[recipes.PreemptAsked](s).By.Owner)
		await[recipes.PreemptSent](n)
		n.waits()
		s.handsOverTo(n)
	})
}

// The holder has read who is next while it held the lock. A more important request that has come since goes first.
func TestHolderThatKnowsWhoIsNextLooksAgain(t *testing.T) {
	each(t, map[string]func(w *world, holder *user) (important *user){
		"it has looked a while ago": func(w *world, holder *user) *user {
			w.Pass(short)
			important := w.ask("important", at(9), func(r *recipes.Request) { r.NeverPreempts = true })
			important.Queued()
			holder.release()
			return important
		},
		"it was just asked to go": func(w *world, holder *user) *user {
			important := w.ask("important", at(9))
			await[recipes.PreemptAsked](holder)
			holder.release()
			return important
		},
		"it has no connection as it releases": func(w *world, holder *user) *user {
			returns := w.On(zktest.Op(zktest.Connect).From("holder")).Hold()
			w.disconnect("holder")
			w.reached(returns)
			released := holder.releases()
			important := w.ask("important", at(9))
			await[recipes.PreemptSent](important)
			returns.Release()
			require.NoError(w, released())
			return important
		},
	}, func(w *world, comes func(w *world, holder *user) (important *user)) {
		// given one that was handed the lock, and has looked who is next
		first := w.hold("first", at(1))
		holder, next := w.wait("holder", at(1), cleanup(time.Hour)), w.wait("next")
		w.client("important")
		first.release()
		holder.Granted()
		w.Pass(time.Millisecond)

		// when a more important one comes, and the holder releases
		important := comes(w, holder)

		// then that one is granted
		important.Granted()
		next.waits()
		important.release()
		next.Granted()
	})
}

// Every hold hears that it is asked to go, in whatever order it and others of its client began and ended.
func TestEveryHoldOfAClientHearsThatItIsAskedToGo(t *testing.T) {
	each(t, map[string]time.Duration{"at once": 0, "one after the other": 4 * time.Millisecond, "for long": 30 * time.Millisecond},
		func(w *world, pause time.Duration) {
			mine, others := w.client("mine"), w.client("others")
			var holds []*user
			for i := range 4 {
				holds = append(holds, mine.ask(fmt.Sprint("scope ", i), fmt.Sprint("holder ", i), cleanup(time.Hour)))
				holds[i].Granted()
				if i == 1 {
					holds[0].release() // one that ends early
				}
				w.Pass(pause)
			}
			for _, h := range holds[1:] {
				boss := others.ask(h.scope, "boss", at(1))
				await[recipes.PreemptAsked](h)
				h.release()
				boss.Granted()
				boss.release()
			}
		})
}
