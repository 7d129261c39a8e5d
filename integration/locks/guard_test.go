package locks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func (f *fixture) guard(c *lock.Client, owner string) *lockguard.Guard {
	f.Helper()
	g, err := lockguard.New(c, lockguard.WithOwner(owner), lockguard.WithObserver(func(_ context.Context, e lockguard.Event) {
		f.History.Add(owner, "%T %+v", e.Notice, e)
	}))
	require.NoError(f, err)
	return g
}

var users = lockguard.Requirement{Scope: "users"}

// Curator M7, M8
func TestNestedHoldsKeepTheLockUntilTheLastIsReleased(t *testing.T) {
	h := share(t)
	onlooker := h.Client()
	guard := h.guard(h.Client(), "nested")

	// given a holder that acquires again two levels deep, through its context
	outer, err := guard.Acquire(t.Context(), users)
	require.NoError(t, err)
	middle, err := guard.Acquire(outer.Context(), users)
	require.NoError(t, err)
	inner, err := guard.Acquire(middle.Context(), users)
	require.NoError(t, err)
	require.Equal(t, outer.Token(), inner.Token())
	require.Len(t, h.Ephemerals(), 1)

	// when it releases level by level, then the lock is held until the last one, by it alone
	for _, hold := range []*lockguard.Hold{inner, middle} {
		require.NoError(t, hold.Release(t.Context()))
		try := users
		try.AcquireTimeout = new(time.Duration)
		_, err := guard.Acquire(t.Context(), try)
		require.True(t, lock.IsNotAcquired(err), "without that context it is a stranger")
		h.heldBy(onlooker, "nested")
		require.NoError(t, outer.Context().Err())
	}

	// and free after it
	require.NoError(t, outer.Release(t.Context()))
	require.False(t, h.state(onlooker).Held())
	require.ErrorIs(t, outer.Release(t.Context()), lockguard.ErrReleased)
}

// Curator M1, as a program writes it.
func TestWorkRunsUnderTheLockAndTheLockEndsWithIt(t *testing.T) {
	h := share(t)
	c := h.Client()
	failure := errors.New("work failed")

	// given a free lock, when work runs under it, then the lock is held inside
	err := h.guard(c, "worker").Do(t.Context(), users, func(ctx context.Context) error {
		hold, ok := lockguard.FromContext(ctx)
		require.True(t, ok)
		state := h.state(c)
		require.Equal(t, []string{"worker"}, harness.Owners(state.Holders))
		require.Equal(t, hold.Token(), state.Holders[0].Token)
		return failure
	})

	// and free after it, whatever came of it
	require.ErrorIs(t, err, failure)
	require.False(t, h.state(c).Held())
	require.Empty(t, h.Ephemerals())
}
