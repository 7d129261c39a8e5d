package helix

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Helix 43
func TestHolderWithoutHookHasNothingToCleanUp(t *testing.T) {
	t.Parallel()
	for what, holder := range map[string][]change{
		"neither hook nor time for one": {lease(time.Hour)},
		"time, but no hook":             {lease(time.Hour), cleanup(declared)},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)

			// given that A works under the lock and has no hook
			a := h.work(h.client(), "A", nil, holder...)

			// when B asks politely
			b := h.hold(h.client(), "B", at(5), waiting(declared))

			// then A is interrupted, and the lock is B's when the work has returned
			require.ErrorAs(t, a.ended(), new(*lockguard.PreemptedError))
			require.Equal(t, []string{"Waiting", "Acquired", "PreemptRequested", "Released"}, a.told.names())
			require.Equal(t, "B", h.holder())
			require.Zero(t, count[lockguard.TakenOver](b.told))
			require.Greater(t, b.token(), a.token())
		})
	}
}

// Helix 44
func TestHookThatFailsIsReportedAndTheLockIsHandedOver(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	for how, fail := range map[string]func() error{
		"returns an error": func() error { return broken },
		"panics":           func() error { panic(broken) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)

			// given that A has two hooks, and the one that comes first fails
			var under []string
			onlooker := h.onlooker()
			other := func(ctx context.Context) error {
				state, err := onlooker.Lock(ctx, scope)
				under = owners(state.Holders)
				return err
			}
			failing := func(context.Context) error { return fail() }
			a := h.work(h.client(), "A", []lockguard.Hook{other, failing}, lease(time.Hour), cleanup(declared))

			// when it is preempted
			b := h.hold(h.client(), "B", at(5))

			// then the work ends with both: why it had to go, and what went wrong
			err := a.ended()
			require.ErrorAs(t, err, new(*lockguard.PreemptedError))
			require.ErrorIs(t, err, broken)
			if how == "panics" {
				var panicked *lockguard.PanicError
				require.ErrorAs(t, err, &panicked)
				require.Equal(t, "cleanup hook", panicked.In)
				require.NotEmpty(t, panicked.Stack)
			}

			// and the event says so
			require.Equal(t, []string{"Waiting", "Acquired", "PreemptRequested", "CleanupStarted", "CleanupDone", "Released"}, a.told.names())
			require.Equal(t, 2, await[lockguard.CleanupStarted](t, a.told).Hooks)
			require.ErrorIs(t, await[lockguard.CleanupDone](t, a.told).Err, broken)
			require.NoError(t, await[lockguard.Released](t, a.told).Err)

			// and the other hook has run, under the lock, and B holds
			require.Equal(t, []string{"A"}, under)
			require.Equal(t, "B", h.holder())
			require.Greater(t, b.token(), a.token())
		})
	}
}
