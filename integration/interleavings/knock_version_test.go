package interleavings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// 68: a knock contains the version of the lock that it has read. When somebody was granted since, it is made anew.
func TestKnockThatComesAfterAGrantForgetsNobody(t *testing.T) {
	scenario(t, func(w *world) {
		// given a waiter that is about to knock, and has read the lock
		x, v, release := w.knocks()

		// when another one is granted before its knock comes
		w.evict(x)
		y := w.ask("Y", at(5))
		y.Granted()
		before := w.lock()
		release()

		// then the lock still names that one
		w.eventually("the version is higher", func() bool {
			now := w.lock()
			return now.Stat.Version > before.Stat.Version
		})
		now := w.lock()
		require.Equal(w, string(before.Data), string(now.Data))
		require.Equal(w, []string{"Y"}, w.holders())
		v.waits()
		y.release()
		v.Granted()
	})
}
