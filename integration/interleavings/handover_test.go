package interleavings

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
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
		await[lock.Requeued](s)
		require.Equal(w, 1, s.Queued().Position)
		s.waits()
		require.NotEqual(w, first, s.id())
		require.Equal(w, []string{"N"}, w.holders())
		require.Zero(w, times[lock.Lost](s))
		n.handsOverTo(s)
	})
}

// The holder has read who is next while it held the lock. A more important request that has come since goes first.
func TestHolderThatKnowsWhoIsNextLooksAgain(t *testing.T) {
	each(t, map[string]func(w *world, holder *user, began time.Duration) (important *user){
		"it has looked a while ago": func(w *world, holder *user, _ time.Duration) *user {
			w.Pass(short)
			important := w.ask("important", at(9), func(r *lock.Request) { r.NeverPreempts = true })
			important.Queued()
			important.waits() // until the holder has heard that somebody came
			holder.release()
			return important
		},
		"it was just preempted": func(w *world, holder *user, began time.Duration) *user {
			important := w.ask("important", at(9))
			await[lock.PreemptRequested](holder)
			require.LessOrEqual(w, w.Now(), began+2*time.Millisecond, "what it has read may be used for longer")
			holder.release()
			return important
		},
		"it has no connection as it releases": func(w *world, holder *user, _ time.Duration) *user {
			returns := w.On(zktest.Op(zktest.Connect).From("holder")).Hold()
			w.disconnect("holder")
			w.reached(returns)
			released := holder.releases()
			important := w.ask("important", at(9))
			await[lock.PreemptSent](important)
			returns.Release()
			require.NoError(w, released())
			return important
		},
	}, func(w *world, comes func(w *world, holder *user, began time.Duration) (important *user)) {
		// given one that was handed the lock, and has looked who is next
		first := w.hold("first", at(1))
		holder, next := w.wait("holder", at(1), cleanup(time.Hour)), w.wait("next")
		w.client("important")
		first.release()
		holder.Token() // reads its node, and so watches it
		began := w.Now()
		w.Pass(time.Millisecond)

		// when a more important one comes, and the holder releases
		important := comes(w, holder, began)

		// then that one is granted
		important.Granted()
		next.waits()
		important.release()
		next.Granted()
	})
}

// Every hold learns of its preemption, in whatever order it and others of its client began and ended.
func TestEveryHoldOfAClientLearnsOfItsPreemption(t *testing.T) {
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
				await[lock.PreemptRequested](h)
				h.release()
				boss.Granted()
				boss.release()
			}
		})
}

// N12: the holder releases by itself while a preempt request is on its way to
// it.
func TestHolderThatReleasesBeforeItHearsOfThePreemptorGivesItTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder with somebody behind it
		h := w.hold("H", at(5), cleanup(time.Hour))
		behind := w.wait("behind", at(5))

		// and a more important one, whose request has not come to its ears
		word := w.On(Changed(users, h.id()).From("H")).Hold()
		p := w.ask("P", at(9))
		await[lock.PreemptSent](p)
		w.reached(word)
		require.Zero(w, times[lock.PreemptRequested](h))

		// when it releases
		released := h.releases()
		synctest.Wait()
		word.Release()
		require.NoError(w, released())
		require.Zero(w, times[lock.PreemptRequested](h))

		// then the more important one holds, and then the other
		require.Greater(w, p.Token(), h.Token())
		behind.waits()
		require.Equal(w, []string{"P"}, w.holders())
		p.handsOverTo(behind)
	})
}
