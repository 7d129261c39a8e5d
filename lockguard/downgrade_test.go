package lockguard

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestDowngradeSharesTheLockOnce(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		token := hold.Token()

		require.NoError(t, hold.Downgrade(t.Context()))
		require.NoError(t, hold.Downgrade(t.Context()))
		require.Equal(t, 1, s.locker.last().downgrades)
		require.Equal(t, priority.Shared, hold.Info().Requirement.Mode)
		require.Equal(t, priority.Shared, about[Downgraded](t, s.events).Mode)
		require.Equal(t, token, hold.Token())
		require.NoError(t, hold.Context().Err())

		// and there is no way back
		var upgrade *UpgradeError
		_, err := s.Acquire(hold.Context(), required())
		require.ErrorAs(t, err, &upgrade)
		require.NoError(t, hold.Release(t.Context()))
		require.ErrorIs(t, hold.Downgrade(t.Context()), ErrReleased)
	})
}

func TestDowngradeIsRefusedWhileANestedHoldCountsOnBeingAlone(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		outer := acquire(t.Context(), t, s, required())
		inner := acquire(outer.Context(), t, s, required())

		for _, hold := range []*Hold{outer, inner} {
			refused := as[*RequestError](t, hold.Downgrade(t.Context()))
			require.Equal(t, "mode", refused.Field)
		}
		require.Zero(t, s.locker.last().downgrades)
		require.Equal(t, priority.Exclusive, outer.Info().Requirement.Mode)

		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, outer.Downgrade(t.Context()))
	})
}

func TestDowngradeThatFailedIsAskedForAgain(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		g := s.locker.last()
		g.downgradeErr = errors.New("no answer")
		require.ErrorContains(t, hold.Downgrade(t.Context()), "no answer")
		require.Equal(t, priority.Exclusive, hold.Info().Requirement.Mode)
		_, err := s.Acquire(hold.Context(), required())
		require.ErrorAs(t, err, new(*UpgradeError), "it may be shared")

		g.downgradeErr = nil
		require.NoError(t, hold.Downgrade(t.Context()))
		require.Equal(t, 2, g.downgrades)
		require.Equal(t, priority.Shared, about[Downgraded](t, s.events).Mode)
	})
}

func TestDowngradeIsRefusedWhileAnotherHoldOfSeveralLocksCountsOnBeingAlone(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		a, b := required(), required()
		a.Scope, b.Scope = "A", "B"
		var refused *RequestError

		// one inside one on both
		both, err := s.AcquireAll(t.Context(), []Requirement{a, b})
		require.NoError(t, err)
		for _, r := range []Requirement{a, b} {
			inner := acquire(both.Context(), t, s, r)
			require.ErrorAs(t, inner.Downgrade(t.Context()), &refused, r.Scope)
			require.NoError(t, inner.Release(t.Context()))
		}
		require.NoError(t, both.Release(t.Context()))

		// one on both inside one
		outer := acquire(t.Context(), t, s, a)
		inner, err := s.AcquireAll(outer.Context(), []Requirement{b, a})
		require.NoError(t, err)
		require.ErrorAs(t, outer.Downgrade(t.Context()), &refused)
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, outer.Downgrade(t.Context()))
	})
}

func TestNoExclusiveNestingWhileSeveralLocksBecomeShared(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		a, b := required(), required()
		a.Scope, b.Scope = "A", "B"
		both, err := s.AcquireAll(t.Context(), []Requirement{a, b})
		require.NoError(t, err)

		// when the first one is about to be shared
		asked, answer, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		s.locker.of(t, "A").downgrade = func() {
			close(asked)
			<-answer
		}
		go func() { done <- both.Downgrade(t.Context()) }()
		<-asked

		// then the second one is not to be had alone any more
		var upgrade *UpgradeError
		_, err = s.Acquire(both.Context(), b)
		require.ErrorAs(t, err, &upgrade)
		close(answer)
		require.NoError(t, <-done)
	})
}
