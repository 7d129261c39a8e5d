package interleavings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// 6: two newcomers read the idle lock at the same v.
func TestOfTwoThatFoundTheLockIdleOneHoldsAndTheOtherJoinsBehindIt(t *testing.T) {
	scenario(t, func(w *world) {
		// given two newcomers that saw the lock idle, and are about to take it
		takesA := w.On(T1(users).From("A").Nth(1)).Hold()
		takesB := w.On(T1(users).From("B").Nth(1)).Hold()
		a, b := w.ask("A", at(9)), w.ask("B", at(1))
		w.reached(takesA)
		w.reached(takesB)

		// when both take it, the less important one first
		takesB.Release()
		b.granted()
		takesA.Release()

		// then that one holds, and the other waits for it
		require.Equal(t, 1, a.queued().Position)
		a.waits()
		require.Equal(t, []string{"B"}, w.holders())
		require.Equal(t, []string{"A"}, w.waiters())
		b.release()
		require.Greater(t, a.token(), b.token())
	})
}
