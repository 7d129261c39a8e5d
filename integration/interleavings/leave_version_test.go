package interleavings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A shared holder whose clean end is written into the lock node contains the version that it has read: it forgets nobody
// who came meanwhile.
func TestReaderThatLeavesCleanlyForgetsNobodyWhoCameMeanwhile(t *testing.T) {
	scenario(t, func(w *world) {
		// given two readers, and one of them about to leave
		a, b := w.hold("A", at(1), sharing, delaying(recipes.MaxLockDelay)), w.hold("B", at(1), sharing)
		leaves := w.On(zktest.Op(zktest.Multi).Containing(zktest.Delete).From("A").Nth(1)).Hold()
		released := a.releases()
		w.reached(leaves)

		// when another one comes in before that
		c := w.hold("C", at(1), sharing)
		leaves.Release()
		require.NoError(w, released())

		// then the lock names it
		require.ElementsMatch(w, []string{"B", "C"}, w.holders())
		writer := w.ask("W", at(1))
		writer.Queued()
		b.release()
		writer.waits()
		c.release()
		writer.Granted()
	})
}
