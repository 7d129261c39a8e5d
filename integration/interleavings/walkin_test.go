package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
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

		// when it walks in after a writer has seen that the lock has no holder, and before that
		// writes
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

// A reader that leaves an open lock does not hand it over: others walk in meanwhile.
func TestReaderThatLeavesAnOpenLockDoesNotHandItOver(t *testing.T) {
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
		require.True(w, lock.IsNotAcquired(r.Refused()))
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

// A reader that acquires the lock after the other holders have left does not open it, and does not take it for open:
// a writer that has listed the holders does not see a reader that walks in at a version at which G does not say
// "open".
func TestReaderThatComesBesideOthersWhoHaveLeftDoesNotOpenTheLock(t *testing.T) {
	scenario(t, func(w *world) {
		// given a reader that has seen another, and comes when that has left
		a := w.hold("A", at(1), sharing)
		looks, r := w.stops(ReadsG(users).From("R"), "R", at(1), sharing)
		a.release()
		looks.Release()
		r.Granted()
		require.NotContains(w, string(w.lock().Data), "open")
		r.release()

		// when one of the same client takes the lock after a writer has seen that the lock has no holder, and before
		// that writes
		writes, writer := w.stops(zktest.Op(zktest.Multi).From("W").Nth(1), "W", at(1))
		again := w.client("R").ask(users, "R", at(1), sharing)
		again.Granted()
		writes.Release()

		// then the writer waits for it
		writer.Queued()
		require.Equal(w, []string{"R"}, w.holders())
		again.release()
		writer.Granted()
	})
}

// A reader that joins one that has walked in, and that G does not name, records that there are such
// readers.
func TestReaderBesideOneThatHasWalkedInSaysSo(t *testing.T) {
	scenario(t, func(w *world) {
		// given a lock that only one has who has walked in, and that a writer has shut
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		walked := w.hold("R", at(1), sharing)
		a.release()
		b.release()
		writer := w.ask("W", at(1), within(time.Second))
		require.True(w, lock.IsNotAcquired(writer.Refused()))
		require.NotContains(w, string(w.lock().Data), "open")

		// when another comes beside it
		beside := w.hold("S", at(1), sharing)

		// then G says that it is open again, and that not all who are there are named
		require.Contains(w, string(w.lock().Data), `"open":true`)
		require.Contains(w, string(w.lock().Data), `"readers_may_have_walked_in":true`)

		// and no writer gets it before both have left
		next := w.wait("S", at(1))
		beside.release()
		require.Equal(w, []string{"R"}, w.holders())
		walked.release()
		next.Granted()
	})
}
