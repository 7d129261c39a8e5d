package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A lock that readers have left open is taken by a writer, and one that knows it to be open walks
// in before that writes: whatever the writer has seen, it sees this one.
func TestReaderThatWalksInBeforeAWriterTakesTheOpenLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a lock that was left open, and a reader that knows
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		knows := w.client("R")
		first := knows.ask(users, "R", at(1), sharing)
		first.Granted()
		a.release()
		b.release()
		first.release()

		// when it walks in after a writer has seen that nobody is there, and before that writes
		writes, writer := w.stops(zktest.Op(zktest.Multi).From("W").Nth(1), "W", at(1))
		w.must(T18(users).From("R"))
		again := knows.ask(users, "R", at(1), sharing)
		again.Granted()
		writes.Release()

		// then the writer waits for it
		writer.Queued()
		require.Equal(w, []string{"R"}, w.holders())
		again.release()
		writer.Granted()
	})
}

// A reader that leaves an open lock hands it over to nobody: others walk in meanwhile.
func TestReaderThatLeavesAnOpenLockHandsItOverToNobody(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that G names, an open lock, and a writer that has joined and not looked yet
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		b.release()
		looks, writer := w.stops(ReadsG(users).From("W"), "W", at(1))

		// when the reader leaves
		w.never(T4(users).From("A"))
		w.must(T5(users).From("A"))
		a.release()
		looks.Release()

		// then the writer takes the lock itself
		writer.Granted()
	})
}

// One that has walked in hands over if the lock is not open any more, in one transaction.
func TestLastReaderThatHasWalkedInHandsOverToAWriterThatHasLooked(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		r := w.hold("R", at(1), sharing)
		a.release()
		b.release()
		writer := w.wait("W", at(1))
		w.must(T4(users).From("R"))
		w.never(T3(users).From("W"))
		r.release()
		writer.Granted()
	})
}

// A T18 of one that has given up meanwhile comes late: it is undone.
func TestReaderThatHasGivenUpDoesNotWalkInLate(t *testing.T) {
	scenario(t, func(w *world) {
		w.hold("A", at(1), sharing)
		w.hold("B", at(1), sharing)
		late, r := w.stops(T18(users).From("R").Nth(1), "R", at(1), sharing, within(time.Second))
		require.True(w, recipes.IsNotAcquired(r.Refused()))
		late.Release()
		w.eventually("its node is gone", func() bool { return len(w.holders()) == 2 && len(w.waiters()) == 0 })
	})
}
