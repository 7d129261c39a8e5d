package lockguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestSilenceIsToldToWorkThatNeedsTimeToStop(t *testing.T) {
	story(t, func(t *testing.T) {
		s := newSetup(t)
		hold := acquire(t.Context(), t, s, required())
		risk := hold.AtRisk()
		require.False(t, isClosed(risk))

		g := s.locker.last()
		g.request.Notify(recipes.AtRisk{Deadline: g.deadline})
		g.request.Notify(recipes.AtRisk{Deadline: g.deadline})

		require.True(t, isClosed(risk))
		require.True(t, isClosed(hold.AtRisk()), "the silence goes on")
		require.NoError(t, hold.Context().Err(), "the lock is still held")
		require.NoError(t, hold.Release(t.Context()))
	})
}

func TestAnswerEndsTheRiskForWhateverStartsLater(t *testing.T) {
	story(t, func(t *testing.T) {
		s := newSetup(t)
		hold := acquire(t.Context(), t, s, required())
		g := s.locker.last()
		before := hold.AtRisk()
		g.request.Notify(recipes.AtRisk{Deadline: g.deadline})

		g.deadline = g.deadline.Add(10 * time.Second) // an answer

		after := hold.AtRisk()
		require.True(t, isClosed(before), "work that was told to stop is not called back")
		require.False(t, isClosed(after))
		g.request.Notify(recipes.AtRisk{Deadline: g.deadline})
		require.True(t, isClosed(after), "the next silence")
		require.NoError(t, hold.Release(t.Context()))
	})
}
