package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// leftOpen has readers leave the lock open, and returns the client of one that knows.
func (w *world) leftOpen() (knows *client) {
	w.Helper()
	a, b, r := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing), w.hold("R", at(1), sharing)
	a.release()
	b.release()
	r.release()
	return w.client("R")
}

// A lock that readers have left open is taken by a writer, and one that knows it to be open walks
// in before that writes: whatever the writer has seen, it sees this one.
func TestReaderThatWalksInBeforeAWriterTakesTheOpenLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a lock that was left open, and a reader that knows
		knows := w.leftOpen()

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

// T18 contains the epoch: the lock that a reader knew to be open may be gone, and another one be there at its version.
func TestReaderDoesNotWalkIntoALockThatIsThereAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given a lock that was left open, and a reader that knows and is about to walk in
		knows := w.leftOpen()
		before := w.lock()
		walks := w.On(T18(users).From("R")).Hold()
		reader := knows.ask(users, "R", at(1), sharing)
		w.reached(walks)

		// when the lock is removed, and a writer holds it at the same version
		require.Equal(w, []string{users}, removed(w.collects("gc")()))
		writer := w.hold("W", at(1))
		for {
			now := w.lock()
			if now.Stat.Version == before.Stat.Version {
				break
			}
			require.Less(w, now.Stat.Version, before.Stat.Version)
			require.NoError(w, w.Set(now.Path, now.Data))
		}
		walks.Release()

		// then the reader waits for it
		reader.waits()
		require.Equal(w, []string{"W"}, w.holders())
		writer.release()
		reader.Granted()
	})
}
