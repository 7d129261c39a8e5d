package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestCheckFindsALossBeforeItIsTold(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		g := s.locker.last()
		require.NoError(t, hold.Check())
		g.preempt(time.Minute)
		require.NoError(t, hold.Check(), "a preempted holder still holds")

		lost := &LostError{Scope: scope, Token: hold.Token(), Reason: lock.LossSession}
		g.check = func() error { return lost } // the process was stopped; no notice yet
		g.release = func(context.Context) error { return lost }

		require.Equal(t, error(lost), hold.Check())
		require.True(t, isClosed(hold.Lost()))
		g.request.Notify(lock.Lost{Err: lost}) // here it is
		require.Equal(t, error(lost), hold.Check())
		require.ErrorIs(t, hold.Release(t.Context()), lost)
		require.ErrorIs(t, hold.Check(), ErrReleased)
		synctest.Wait()
		require.Equal(t, lost, only[Lost](t, s.events).Err)
	})
}

func TestAnswerEndsTheRiskForWhateverStartsLater(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		g := s.locker.last()
		before := hold.AtRisk()
		g.request.Notify(lock.AtRisk{Deadline: g.deadline})

		g.deadline = g.deadline.Add(10 * time.Second) // an answer

		after := hold.AtRisk()
		require.True(t, isClosed(before), "work that was told to stop is not called back")
		require.False(t, isClosed(after))
		g.request.Notify(lock.AtRisk{Deadline: g.deadline})
		require.True(t, isClosed(after), "the next silence")
	})
}
