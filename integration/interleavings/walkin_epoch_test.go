package interleavings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// T18 contains the epoch: the lock that a reader knew to be open may be gone, and another one be there at its version.
func TestReaderDoesNotWalkIntoALockThatIsThereAnew(t *testing.T) {
	scenario(t, func(w *world) {
		// given a lock that was left open, and a reader that knows and is about to walk in
		a, b := w.hold("A", at(1), sharing), w.hold("B", at(1), sharing)
		knows := w.client("R")
		first := knows.ask(users, "R", at(1), sharing)
		first.Granted()
		a.release()
		b.release()
		first.release()
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
