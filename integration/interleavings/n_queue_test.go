package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

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
		await[recipes.PreemptSent](p)
		w.reached(word)
		require.Zero(w, times[recipes.PreemptAsked](h))

		// when it releases
		released := h.releases()
		word.Release()
		require.NoError(w, released())

		// then the more important one holds, and then the other
		require.Greater(w, p.Token(), h.Token())
		behind.waits()
		require.Equal(w, []string{"P"}, w.holders())
		p.handsOverTo(behind)
	})
}

// N13: one that outranks the holder, but not the preemptor, comes in between.
func TestLessImportantNewcomerChangesNothingForThePreemptor(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder of priority 1, asked to go by one of priority 3
		h := w.hold("H", at(1), cleanup(time.Hour))
		three := w.ask("three", at(3))
		await[recipes.PreemptSent](three)
		require.Equal(w, "three", await[recipes.PreemptAsked](h).By.Owner)

		// when one of priority 2 asks, forcefully
		w.never(T6(users).From("two"))
		w.never(T7(users).From("two"))
		w.never(Withdraws(users).From("three"))
		two := w.ask("two", at(2), forceful, waiting(0))
		require.Equal(w, 2, two.Queued().Position)

		// then nobody is told anything
		two.waits()
		three.waits()
		require.Equal(w, []string{"three", "two"}, w.waiters())
		require.Zero(w, times[recipes.Displaced](three))
		require.Equal(w, 1, times[recipes.PreemptAsked](h))
		require.Zero(w, times[recipes.Lost](h))

		// and the one of priority 3 is next, as it was
		h.handsOverTo(three)
		two.waits()
		three.handsOverTo(two)
	})
}

// N14: a flood of events, and behind it the end of the session, for one that is
// slow to hear.
func TestExpiryBehindAFloodOfEventsIsSeen(t *testing.T) {
	const locks = 20
	scenario(t, func(w *world) {
		// given a client that holds many locks, and waits for as many, and listens slowly
		slowly := func(r *recipes.Request) {
			hear := r.Notify
			r.Notify = func(n recipes.Notice) { <-time.After(time.Millisecond); hear(n) }
		}
		c, others := w.client("A"), w.client("B")
		var holds, waits, asks, blocks []*user
		for i := range locks {
			scope := string(rune('a' + i))
			held := c.ask("mine/"+scope, "mine "+scope, cleanup(time.Hour), slowly)
			held.Granted()
			holds = append(holds, held)
			block := others.ask("theirs/"+scope, "theirs "+scope, at(5))
			block.Granted()
			blocks = append(blocks, block)
			wait := c.ask("theirs/"+scope, "waiting "+scope, slowly)
			wait.Queued()
			waits = append(waits, wait)
		}

		// when an event comes for each of them, and the end of the session behind
		flood := w.On(zktest.Event().From("A")).Hold()
		for i := range locks {
			ask := others.ask(holds[i].scope, "asking", at(9))
			await[recipes.PreemptSent](ask)
			asks = append(asks, ask)
		}
		w.reached(flood)
		w.expire("A")
		for _, block := range blocks {
			block.release()
		}
		flood.Release()

		// then each hold is lost, and each waiter holds in the next session
		for _, held := range holds {
			require.Equal(w, recipes.LossSession, await[recipes.Lost](held).Err.Reason)
		}
		for i := range locks {
			asks[i].Granted()
			waits[i].Granted()
		}
	})
}
