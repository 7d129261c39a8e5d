package interleavings

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// protects begins a minimum runtime. The function that it returns waits for the outcome.
func (u *user) protects(d time.Duration) (outcome func() error) {
	g := u.Granted()
	return u.does("minimum runtime", func(ctx context.Context) error { return g.Protect(ctx, d) })
}

// A waiter that has judged a holder by what it said before never asks it once
// its minimum runtime has begun: T6 has the version that was judged.
func TestHolderThatIsProtectedAsItIsAskedIsLeftAlone(t *testing.T) {
	const least = time.Second
	scenario(t, func(w *world) {
		// given a T6 that is under way
		h := w.hold("H", at(1))
		asks, p := w.stops(T6(users).From("P").Nth(1), "P", at(5))

		// when the holder's minimum runtime begins before it
		protected := w.Now()
		require.NoError(t, h.protects(least)())
		asks.Release()

		// then the holder is asked when that is over
		_, when := awaitAt[lock.PreemptRequested](h)
		require.GreaterOrEqual(w, when-protected, least)
		h.release()
		p.Granted()
	})
}

// The other way round the holder hears that it was asked before, and is preempted.
func TestMinimumRuntimeThatBeginsTooLateIsRefused(t *testing.T) {
	scenario(t, func(w *world) {
		// given a holder whose minimum runtime is about to begin
		h := w.hold("H", at(1))
		writes := w.On(T11(users).From("H")).Hold()
		outcome := h.protects(time.Hour)
		w.reached(writes)

		// when it is asked before
		p := w.ask("P", at(5))
		await[lock.PreemptSent](p)
		writes.Release()

		// then it learns so, and is not protected
		var pending *lock.PreemptPendingError
		require.ErrorAs(w, outcome(), &pending)
		require.Equal(w, "P", pending.By.By.Owner)
		require.Zero(w, w.state().Holders[0].MinRuntimeLeft)
		h.release()
		p.Granted()
	})
}

// No holder is preempted while another is left alone; but an earlier preemption
// stands, and its grace period runs.
func TestRequestToGoThatStandsOutlivesAnotherWhoIsLeftAlone(t *testing.T) {
	const grace = 300 * time.Millisecond
	scenario(t, func(w *world) {
		// given a reader that was preempted by a forceful writer
		h := w.hold("H", at(1), sharing, cleanup(grace))
		p := w.ask("P", at(5), forceful)
		_, asked := awaitAt[lock.PreemptRequested](h)
		synctest.Wait() // P has looked after that, and does not see the other in the queue

		// when another, which it does not outrank, comes in beside it, and leaves
		n := w.ask("N", at(9), sharing)
		n.Granted()
		w.never(T6(users).From("P"))
		w.Pass(2 * grace)
		p.waits()
		n.release()

		// then the writer takes the lock: the grace of the first was over
		p.Granted()
		_, lost := awaitAt[lock.Lost](h)
		require.Equal(w, 2*grace, lost-asked)
		require.Equal(w, 1, times[lock.TakenOver](p))
	})
}
