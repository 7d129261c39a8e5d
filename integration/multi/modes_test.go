package multi

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Each part has a mode of its own: what is shared is held together, what is
// exclusive alone.
func TestPartsHaveModesOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	reads := recipes.Part{Scope: "common", Request: recipes.Request{Mode: priority.Shared}}

	// given two that share one lock and have another each
	one := h.ask(h.multi(h.client(), reads, recipes.Part{Scope: "one"})).granted()
	two := h.ask(h.multi(h.client(), reads, recipes.Part{Scope: "two"})).granted()

	// when a third wants the shared one alone, and a fourth to share it
	writer := h.ask(h.multi(h.client(), recipes.Part{Scope: "common"}, recipes.Part{Scope: "three"}))
	h.queued(h.client(), "common")
	writer.waits()
	reader := h.ask(h.multi(h.client(), reads, recipes.Part{Scope: "four"}))
	reader.waits()

	// then it waits for both, and the fourth one for it
	require.NoError(t, one.Release(t.Context()))
	writer.waits()
	require.NoError(t, two.Release(t.Context()))
	grant := writer.granted()
	reader.waits()
	require.NoError(t, grant.Release(t.Context()))
	require.NoError(t, reader.granted().Release(t.Context()))
	h.nobodyThere()
}

// A writer that outranks them asks readers to go that hold other locks as well:
// they give all of them back.
func TestReaderOfSeveralLocksIsPreemptedByAWriterOfOne(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	guard, err := lockguard.New(h.client())
	require.NoError(t, err)
	boss, err := lockguard.New(h.client())
	require.NoError(t, err)
	working, done := make(chan struct{}), make(chan error, 1)

	// given work under a shared lock and an exclusive one
	go func() {
		done <- guard.DoAll(t.Context(), []lockguard.Requirement{
			{Scope: "b", Mode: priority.Shared, CleanupTimeout: time.Minute}, {Scope: "a", CleanupTimeout: time.Minute},
		}, func(ctx context.Context) error {
			close(working)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-working

	// when a more important writer wants the shared one, then it gets it, and the other is free
	err = boss.Do(t.Context(), lockguard.Requirement{Scope: "b", Priority: 5}, func(context.Context) error { return nil })
	require.NoError(t, err)
	var preempted *lockguard.PreemptedError
	require.ErrorAs(t, <-done, &preempted)
	require.Equal(t, "b", preempted.Scope)
	h.nobodyThere()
}

// All locks of a Hold become shared, or none.
func TestHoldOfSeveralLocksIsDowngradedWhole(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	guard, err := lockguard.New(h.client())
	require.NoError(t, err)
	requirements := []lockguard.Requirement{{Scope: "a"}, {Scope: "b"}}
	hold, err := guard.AcquireAll(t.Context(), requirements)
	require.NoError(t, err)

	// given a nested hold that counts on being alone with the second one
	inner, err := guard.Acquire(hold.Context(), requirements[1])
	require.NoError(t, err)
	var refused *lockguard.RequestError
	require.ErrorAs(t, hold.Downgrade(t.Context()), &refused)

	// then neither is shared
	reads := recipes.Request{Mode: priority.Shared, AcquireTimeout: new(time.Duration)}
	other := h.client()
	for _, scope := range []string{"a", "b"} {
		_, err := h.multi(other, recipes.Part{Scope: scope, Request: reads}).Acquire(t.Context())
		require.True(t, recipes.IsNotAcquired(err), "%v", err)
	}

	// when that one has ended, then both are
	require.NoError(t, inner.Release(t.Context()))
	tokens := hold.Tokens()
	require.NoError(t, hold.Downgrade(t.Context()))
	require.Equal(t, tokens, hold.Tokens())
	grant, err := h.multi(other, parts(reads, "a", "b")...).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, grant.Release(t.Context()))
	require.NoError(t, hold.Release(t.Context()))
	h.nobodyThere()
}
