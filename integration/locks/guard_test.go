package locks

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func (f *fixture) guard(c *recipes.Client, owner string) *lockguard.Guard {
	f.Helper()
	g, err := lockguard.New(c, lockguard.WithOwner(owner), lockguard.WithObserver(func(_ context.Context, e lockguard.Event) {
		f.History.Add(owner, "%T %+v", e, e)
	}))
	require.NoError(f, err)
	return g
}

var users = lockguard.Requirement{Scope: "users"}

// Curator M7
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

	// when it releases level by level, then the lock is held until the last one
	for _, hold := range []*lockguard.Hold{inner, middle} {
		require.NoError(t, hold.Release(t.Context()))
		h.heldBy(onlooker, "nested")
		require.NoError(t, outer.Context().Err())
	}

	// and free after it
	require.NoError(t, outer.Release(t.Context()))
	require.False(t, h.state(onlooker).Held())
	require.ErrorIs(t, outer.Release(t.Context()), lockguard.ErrReleased)
}

// Curator M8
func TestStrangerStaysOutOfANestedHold(t *testing.T) {
	h := share(t)
	c := h.Client()
	guard := h.guard(c, "nested")

	// given a thread that holds the lock twice
	outer, err := guard.Acquire(t.Context(), users)
	require.NoError(t, err)
	inner, err := guard.Acquire(outer.Context(), users)
	require.NoError(t, err)

	stranger := func(with *lockguard.Guard) error {
		r := users
		r.AcquireTimeout = new(300 * time.Millisecond)
		hold, err := with.Acquire(t.Context(), r)
		if err == nil {
			require.NoError(t, hold.Release(t.Context()))
		}
		return err
	}
	for level, hold := range []*lockguard.Hold{inner, outer} {
		// when another thread of the guard, or another guard of the client, acquires with a timeout
		// then it does not get in, as long as one level is held
		var busy *recipes.NotAcquiredError
		require.ErrorAs(t, stranger(guard), &busy, "level %d", level)
		require.ErrorAs(t, stranger(h.guard(c, "other guard")), &busy, "level %d", level)
		require.NoError(t, hold.Release(t.Context()))
	}

	// and it gets in when none is
	require.NoError(t, stranger(guard))
}

// Curator X2
func TestHolderThatIsAskedToGoRunsItsHookOnceAndGivesWay(t *testing.T) {
	h := share(t)

	// given a holder with a hook, at work
	var hooked, inHook atomic.Int32
	working := make(chan struct{})
	ended := make(chan error, 1)
	victim := h.guard(h.Client(), "victim")
	go func() {
		requirement := users
		requirement.CleanupTimeout = time.Minute
		ended <- victim.Do(context.Background(), requirement,
			func(ctx context.Context) error {
				close(working)
				<-ctx.Done()
				return context.Cause(ctx)
			},
			func(context.Context) error {
				hooked.Add(1)
				// Still under the lock.
				state := h.state(h.Client())
				if state.Held() && state.Holders[0].Owner == "victim" {
					inHook.Add(1)
				}
				return nil
			})
	}()
	<-working

	// when another client asks for its lock
	start := time.Now()
	requirement := users
	requirement.Priority = 1
	preemptor, err := h.guard(h.Client(), "preemptor").Acquire(t.Context(), requirement)
	took := time.Since(start)

	// then the hook has run once, under the lock, the holder has released, and the other one holds
	require.NoError(t, err)
	require.Less(t, took, 30*time.Second)
	require.EqualValues(t, 1, hooked.Load())
	require.EqualValues(t, 1, inHook.Load())
	var preempted *lockguard.PreemptedError
	require.ErrorAs(t, <-ended, &preempted)
	require.Equal(t, "preemptor", preempted.By)
	h.heldBy(h.Client(), "preemptor")
	require.NoError(t, preemptor.Release(t.Context()))
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
