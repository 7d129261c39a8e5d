package temporal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

func TestLockIsKeptForTheNextRun(t *testing.T) {
	for _, c := range []struct {
		name            string
		keptBy, takenBy string
	}{{"OfTheKeeper", "a", "a"}, {"Elsewhere", "b", "b"}, {"AndTakenElsewhere", "a", "b"}, {"AndTakenBack", "b", "a"}} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				// given a hold that a run has kept for the next one
				process := map[string]*stage{"a": s, "b": newStage(t, s.locks)}
				s.keeps(holderDetails{})
				first := s.locks.holds().Reference()
				in := releaseInput{Reference: first, Requirement: lockguard.Requirement{Scope: "cluster/orders"}, Keep: keepTime}
				kept, err := process[c.keptBy].release(t.Context(), "hold", in)
				require.NoError(t, err)
				again, err := process[c.keptBy].release(t.Context(), "hold", releaseInput{Reference: kept, Requirement: in.Requirement, Keep: keepTime})
				require.NoError(t, err)
				require.Equal(t, kept, again, "a workflow task may be done twice")
				s.service.closes(enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW)
				pass(keepTime - time.Second)
				require.NotNil(t, s.locks.holds())

				// when the next run comes
				taker := process[c.takenBy]
				taker.service = newFakeService()
				taker.keeps(holderDetails{}, func(k *keeper) { k.input.Adopt = &kept })

				// then it has the lock with the same token, for as long as it wants
				pass(time.Hour)
				require.Equal(t, first.Token, s.locks.holds().reference.Token)
				require.Equal(t, []holdState{stateGranted}, taker.service.states())
				require.True(t, taker.service.told(t).Continued)
				taker.finish()
				require.Nil(t, s.locks.holds())
			})
		})
	}
}

func TestLockThatIsKeptInVainIsReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		kept, err := s.release(t.Context(), "hold", releaseInput{Keep: keepTime})
		require.NoError(t, err)
		pass(keepTime)
		require.Nil(t, s.locks.holds())

		// and a run that comes too late asks for it anew
		s.keeps(holderDetails{}, func(k *keeper) { k.input.Adopt = &kept })
		require.False(t, s.service.told(t).Continued)
		require.Greater(t, s.service.told(t).Reference.Token, kept.Token)
		s.finish()
	})
}

func TestLockThatIsKeptCanBeReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		kept, err := s.release(t.Context(), "hold", releaseInput{Keep: keepTime})
		require.NoError(t, err)
		_, err = s.release(t.Context(), "hold", releaseInput{Reference: kept})
		require.NoError(t, err)
		require.Nil(t, s.locks.holds())
		require.True(t, s.idle())
	})
}

func TestKeptLockThatIsNotTakenOverIsReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.keeps(holderDetails{})
		s.service.answer(serviceerror.NewNotFound("activity already timed out"))
		pass(2 * time.Second)
		pass(keepTime - time.Second)
		require.NotNil(t, s.locks.holds())
		pass(2 * time.Second)
		require.Nil(t, s.locks.holds())
		require.True(t, s.idle())
	})
}

func TestLastWorkerOfAProcessReleasesWhatIsKept(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.admit("worker")
		s.admit("other")
		s.keeps(holderDetails{})
		_, err := s.release(t.Context(), "hold", releaseInput{Keep: keepTime})
		require.NoError(t, err)

		s.keeps(holderDetails{}, func(k *keeper) { k.worker, k.id = "worker", "another hold" })
		s.drain(t.Context(), "other")
		require.True(t, s.service.isOpen(), "workers of the process that go on")
		require.NotNil(t, s.locks.holds())
		s.finish()
		start := time.Now()
		s.drain(t.Context(), "worker")
		require.Equal(t, DefaultHandover, time.Since(start), "it might have been taken over")
		require.Nil(t, s.locks.holds())
		require.True(t, s.idle())
	})
}
