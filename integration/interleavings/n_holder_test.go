package interleavings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// N5: a holder hears nothing any more.
func TestHolderThatHearsNothingKnowsAMarginBeforeTheServerFreesTheLock(t *testing.T) {
	const session = 4 * time.Second
	scenario(t, func(w *world) {
		// given a holder with a short session, and a more important one that waits politely for its cleanup
		w.client("H", harness.SessionTimeout(session))
		h := w.hold("H", at(1), cleanup(time.Hour))
		s := w.ask("S", at(9))
		await[recipes.PreemptAsked](h)

		// when the network swallows all that it sends and all that is sent to it
		w.Partition("H")
		cut := w.Now()

		// then it is warned, told of its loss before the session is over, and only later its successor holds
		await[recipes.AtRisk](h)
		lost, at := awaitAt[recipes.Lost](h)
		require.Equal(w, recipes.LossSession, lost.Err.Reason)
		s.Granted()
		require.LessOrEqual(w, at-cut, session*11/12)
		require.GreaterOrEqual(w, w.Now()-at, session/12)
		require.Greater(w, s.Token(), lost.Err.Token)
		w.Heal("H")
	})
}
