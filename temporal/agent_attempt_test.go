package temporal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

func TestNextAttemptElsewhereTakesTheLockOverWithTheSameToken(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// given a keeper that Temporal takes for dead
		s.keeps(holderDetails{})
		first := s.locks.holds()
		details := s.service.details()
		s.service.answer(serviceerror.NewNotFound("activity already timed out"))
		pass(2 * time.Second)
		require.Same(t, first, s.locks.holds(), "kept for the next attempt")

		// when the next attempt begins on another worker
		other := newStage(t, s.locks)
		other.keeps(details)

		// then it has the same token, and no signal is sent
		require.NotSame(t, first, s.locks.holds())
		require.Equal(t, first.reference.Token, s.locks.holds().reference.Token)
		require.Empty(t, other.service.states())
		require.Equal(t, int64(2*epochs), other.service.details().Epoch)
		pass(time.Minute)
		require.True(t, s.idle())
		require.NotNil(t, s.locks.holds())
		other.finish()
		require.Nil(t, s.locks.holds())
	})
}

func TestNextAttemptInTheSameProcessGoesOnWithTheLock(t *testing.T) {
	for name, before := range map[string]func(s *stage){
		"ThatDoesNotKnowYet": func(*stage) {},
		"ThatIsKept": func(s *stage) {
			s.service.answer(serviceerror.NewNotFound("activity already timed out"))
			pass(2 * time.Second)
			s.service.answer(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.keeps(holderDetails{})
				first := s.locks.holds()
				before(s)
				s.keeps(s.service.details())
				pass(time.Hour)
				require.Same(t, first, s.locks.holds())
				require.Equal(t, []holdState{stateGranted}, s.service.states())
				s.finish()
			})
		})
	}
}

func TestNextAttemptTellsAgainWhatMayNotHaveBeenTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// given a keeper that has died before it could tell
		dead := newStage(t, s.locks)
		dead.service.signalled(serviceerror.NewUnavailable("away"))
		dead.keeps(holderDetails{})
		details := dead.service.details()
		require.False(t, details.Told)

		// when the next attempt takes over
		s.keeps(details)
		require.Equal(t, []holdState{stateGranted}, s.service.states())

		// and the one after that does not tell again of a preemption that the workflow knows of
		s.locks.preempt(time.Minute)
		asked := s.service.details()
		require.True(t, asked.Asked)
		next := newStage(t, s.locks)
		next.keeps(asked)
		require.Empty(t, next.service.states())
		_, err := next.release(t.Context(), "hold", releaseInput{})
		require.NoError(t, err)
		require.Nil(t, s.locks.holds())
	})
}

func TestHoldThatIsGoneWhenTheNextAttemptComesIsLost(t *testing.T) {
	gone := holderDetails{Reference: lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "guid", Token: 7}, Epoch: epochs + 1, Told: true}
	t.Run("AndTheWorkflowIsTold", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.keeps(gone)
			require.True(t, requireType(t, ErrTypeLockLost, s.service.ended(t)).NonRetryable())
			p, ok := PreemptionOf(s.service.ended(t))
			require.True(t, ok)
			require.Equal(t, lockguard.Token(7), p.Token)
			require.Nil(t, s.locks.holds())
		})
	})
	t.Run("AndAskedForAnewIfThatIsWanted", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.locks.busy = make(chan struct{})
			s.keeps(gone, func(k *keeper) { k.input.Again = true })
			require.Equal(t, []holdState{stateLost}, s.service.states())
			require.Equal(t, lockguard.Token(7), s.service.told(t).Reference.Token)
			close(s.locks.busy)
			synctest.Wait()
			require.Equal(t, []holdState{stateLost, stateRegranted}, s.service.states())
			require.Equal(t, lockguard.Token(101), s.service.told(t).Reference.Token)
			s.finish()
		})
	})
	t.Run("ButNotIfItHadOnlyBeenWaitedFor", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			waited := gone
			waited.Reference.Token, waited.Told = 0, false
			s.keeps(waited)
			require.Equal(t, []holdState{stateGranted}, s.service.states())
			s.finish()
		})
	})
}

func TestNextAttemptJoinsAHoldThatOnlyActivitiesHave(t *testing.T) {
	for _, asked := range []bool{false, true} {
		play(t, func(t *testing.T, s *stage) {
			// given a hold whose keeper has died, while an activity is in its scope, and that may have been preempted
			r := lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "of the activity", Token: 7}
			s.locks.admit(r)
			if asked {
				s.locks.preempt(time.Minute)
			}

			// when the next attempt comes, then it is a member as well
			r.ID = "of the dead"
			s.keeps(holderDetails{Reference: r, Told: true})
			require.Equal(t, []bool{asked}, s.locks.cleanups())
			if asked {
				require.Equal(t, []holdState{statePreempting}, s.service.states())
				require.Equal(t, "hotfix", s.service.told(t).Interruption.By)
			} else {
				require.Empty(t, s.service.states())
			}
			s.finish()
		})
	}
}
