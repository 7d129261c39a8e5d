package virtualtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// S13 and E1: an ensemble that is set up anew refuses clients that have seen
// more than it has, silently and for ever.
func TestProgramsLockAgainOnAnEnsembleThatHasLostItsData(t *testing.T) {
	run(t, func(w *world) {
		// given a holder and one that waits for it
		const session = 10 * time.Second
		first, second := w.Program("first", session), w.Program("second", session)
		held := first.Do(lockguard.Requirement{}, untilCancelled)
		w.Until(time.Minute)
		waits := second.Do(lockguard.Requirement{}, lasting(time.Minute))
		w.Until(2 * time.Minute)
		for range 100 { // the lost transactions
			require.NoError(w, w.Set("/lockkeeper", nil))
		}
		require.NoError(w, second.Client.Ready(w.Context()))

		// when the ensemble has lost all of it
		deadline := w.Since(held.Hold().Deadline())
		w.LoseData()

		// then the hold ends at its deadline, because no server answers any more, no
		// request is granted in the meantime, and after some minutes the waiter is
		require.Equal(w, lock.LossSession, virtual.LostBy(w.T, held.Returned()).Reason)
		require.Equal(w, deadline, held.Ended())
		require.LessOrEqual(w, held.Ended(), 2*time.Minute+session*3/4)
		require.Empty(w, contenders(w))
		require.NoError(w, waits.Returned())
		require.Less(w, waits.Ended(), 5*time.Minute+tick)
		again := first.Do(lockguard.Requirement{}, lasting(time.Second))
		require.NoError(w, again.Returned())
	})
}

func TestSessionSurvivesAServerThatIsAwayForLong(t *testing.T) {
	run(t, func(w *world) {
		// given one that waits
		first, second := w.Program("first", long), w.Program("second", 10*time.Second)
		first.Do(lockguard.Requirement{}, lasting(5*time.Minute))
		w.Until(time.Minute)
		second.Do(lockguard.Requirement{}, lasting(time.Second))
		w.Until(2 * time.Minute)
		before := second.Session().ID

		// when the server refuses connections for a quarter of an hour, and comes back
		w.Stop()
		w.Until(17 * time.Minute)
		require.NoError(w, w.Restart())
		w.Until(18 * time.Minute)

		// then it has its old session, and with it its place
		require.Equal(w, before, second.Session().ID)
	})
}
