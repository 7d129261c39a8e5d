package lockguard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestDowngradeSharesTheLockOnce(t *testing.T) {
	story(t, func(t *testing.T) {
		s := newSetup(t)
		hold := acquire(t.Context(), t, s, required())
		token := hold.Token()

		require.NoError(t, hold.Downgrade(t.Context()))
		require.NoError(t, hold.Downgrade(t.Context()))
		require.Equal(t, 1, s.locker.last().downgrades)
		require.Equal(t, priority.Shared, hold.Info().Requirement.Mode)
		require.Equal(t, priority.Shared, only[Downgraded](t, s.events).Mode)
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
	story(t, func(t *testing.T) {
		s := newSetup(t)
		outer := acquire(t.Context(), t, s, required())
		inner := acquire(outer.Context(), t, s, required())

		for _, hold := range []*Hold{outer, inner} {
			var refused *RequestError
			require.ErrorAs(t, hold.Downgrade(t.Context()), &refused)
			require.Equal(t, "mode", refused.Field)
		}
		require.Zero(t, s.locker.last().downgrades)
		require.Equal(t, priority.Exclusive, outer.Info().Requirement.Mode)

		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, outer.Downgrade(t.Context()))
		require.NoError(t, outer.Release(t.Context()))
	})
}

func TestDowngradeOfALostHoldSaysSo(t *testing.T) {
	story(t, func(t *testing.T) {
		s := newSetup(t)
		hold := acquire(t.Context(), t, s, required())
		s.locker.last().lose(recipes.LossSession)
		var lost *LostError
		require.ErrorAs(t, hold.Downgrade(t.Context()), &lost)
		_ = hold.Release(t.Context())
	})
}

func TestDowngradeThatFailedForbidsNothingButExclusiveNesting(t *testing.T) {
	story(t, func(t *testing.T) {
		s := newSetup(t)
		hold := acquire(t.Context(), t, s, required())
		s.locker.last().downgradeErr = errors.New("no answer")
		require.ErrorContains(t, hold.Downgrade(t.Context()), "no answer")

		ctx, cancel := context.WithTimeout(hold.Context(), time.Second)
		defer cancel()
		_, err := s.Acquire(ctx, required())
		var upgrade *UpgradeError
		require.ErrorAs(t, err, &upgrade, "it may be shared")
		require.NoError(t, hold.Release(t.Context()))
	})
}
