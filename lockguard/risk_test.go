package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestSilenceIsToldToWorkThatNeedsTimeToStop(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		risk := hold.AtRisk()
		require.False(t, isClosed(risk))

		g := s.locker.last()
		g.request.Notify(recipes.AtRisk{Deadline: g.deadline})
		g.request.Notify(recipes.AtRisk{Deadline: g.deadline})

		require.True(t, isClosed(risk))
		require.True(t, isClosed(hold.AtRisk()), "the silence goes on")
		require.NoError(t, hold.Context().Err(), "the lock is still held")
	})
}

func TestCheckFindsALossBeforeItIsTold(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		g := s.locker.last()
		require.NoError(t, hold.Check())
		g.preempt(time.Minute)
		require.NoError(t, hold.Check(), "whoever is asked to go still holds")

		lost := &LostError{Scope: scope, Token: hold.Token(), Reason: recipes.LossSession}
		g.check = func() error { return lost } // the process was stopped; no notice yet
		g.release = func(context.Context) error { return lost }

		require.Equal(t, error(lost), hold.Check())
		require.True(t, isClosed(hold.Lost()))
		g.request.Notify(recipes.Lost{Err: lost}) // here it is
		require.Equal(t, error(lost), hold.Check())
		require.ErrorIs(t, hold.Release(t.Context()), lost)
		require.ErrorIs(t, hold.Check(), ErrReleased)
		synctest.Wait()
		require.Equal(t, lost, only[Lost](t, s.events).Err)
	})
}

func TestLossThatCheckFindsEndsTheContextFirst(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		outer := acquire(t.Context(), t, s, required())
		inner := acquire(outer.Context(), t, s, required())
		lost := &LostError{Scope: scope, Reason: recipes.LossSession}
		s.locker.last().check = func() error { return lost }
		s.locker.last().release = func(context.Context) error { return lost }

		require.ErrorIs(t, inner.Check(), lost)

		require.ErrorIs(t, context.Cause(inner.Context()), lost)
		require.ErrorIs(t, context.Cause(outer.Context()), lost)
		require.ErrorIs(t, inner.Release(t.Context()), lost)
		require.ErrorIs(t, outer.Release(t.Context()), lost)
	})
}

func TestHoldKnowsTheTraceOfItsRequest(t *testing.T) {
	s := newSetup(t, WithTrace(func(context.Context, Subject) string { return "00-trace" }))
	hold := acquire(t.Context(), t, s, required())
	require.Equal(t, "00-trace", hold.Trace())
	nested := acquire(hold.Context(), t, s, required())
	require.Equal(t, "00-trace", nested.Trace())
}

func TestAnswerEndsTheRiskForWhateverStartsLater(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
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
	})
}
