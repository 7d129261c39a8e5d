package virtualtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// S13 and E1: an ensemble that is set up anew turns away whoever has seen more
// than it has, without a word and for ever.
func TestProgramsLockAgainOnAnEnsembleThatHasLostItsData(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder and one that waits for it
		const session = 10 * time.Second
		first, second := w.program("first", session), w.program("second", session)
		held := first.do(lockguard.Requirement{}, untilCancelled)
		w.until(time.Minute)
		waits := second.do(lockguard.Requirement{}, lasting(time.Minute))
		w.until(2 * time.Minute)
		for range 100 { // the lost transactions
			require.NoError(t, w.zk.Set("/lockkeeper", nil))
		}
		require.NoError(t, second.client.Ready(t.Context()))

		// when the ensemble has lost all of it
		w.zk.LoseData()

		// then the holder is told in time, nobody is told that it holds in the
		// meantime, and after some minutes the one that waited does
		require.NotNil(t, lostBy(t, held.returned()))
		require.LessOrEqual(t, held.ended, 2*time.Minute+session*3/4)
		require.NoError(t, waits.returned())
		require.Less(t, waits.ended, 5*time.Minute+tick)
		again := first.do(lockguard.Requirement{}, lasting(time.Second))
		require.NoError(t, again.returned())
	})
}

func TestSessionSurvivesAServerThatIsAwayForLong(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given one that waits
		first, second := w.program("first", long), w.program("second", 10*time.Second)
		first.do(lockguard.Requirement{}, lasting(5*time.Minute))
		w.until(time.Minute)
		second.do(lockguard.Requirement{}, lasting(time.Second))
		w.until(2 * time.Minute)
		before := second.session().ID

		// when the server refuses connections for a quarter of an hour, and comes back
		w.zk.Stop()
		w.until(17 * time.Minute)
		require.NoError(t, w.zk.Restart())
		w.until(18 * time.Minute)

		// then it has its old session, and with it its place
		require.Equal(t, before, second.session().ID)
	})
}
