package helix

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 47
func TestStrangerCannotReleaseALockWhoseLeaseHasRunOut(t *testing.T) {
	h := newFixture(t)

	// given two strangers: one has released the lock, the other has lost it to A
	released := h.past(h.Client(), "released")
	loser := h.holds("loser")
	a := h.holds("A", at(1), forceful, lease(50*time.Millisecond))
	loser.loses()

	// and that A's lease has run out
	h.leaseRunsOut()

	h.unchanged(func() {
		// when they release, or extend, then they learn that they do not hold
		require.ErrorIs(t, released.Release(t.Context()), lockguard.ErrReleased)
		require.ErrorIs(t, released.Extend(t.Context(), time.Hour), lockguard.ErrReleased)
		var lost *lockguard.LostError
		require.ErrorAs(t, loser.Granted().Extend(t.Context(), time.Hour), &lost)
		require.Equal(t, "A", lost.By)
		require.ErrorAs(t, loser.Granted().Release(t.Context()), &lost)
		require.Equal(t, "A", lost.By)
		require.ErrorIs(t, loser.Granted().Release(t.Context()), lockguard.ErrReleased)
	})

	// and A still holds, as long as it is not preempted
	require.Equal(t, "A", h.holder())
	a.undisturbed()
	a.release()
}

// Helix 48
func TestSameOwnerInTwoProcessesIsTwoStrangers(t *testing.T) {
	h := newFixture(t)

	// given that a process holds the lock as "backup"
	there := h.process("backup", time.Minute, plainly)
	there.order("acquire")
	token := there.await("Acquired").Token

	// when this process asks as "backup" too
	here := h.Client()
	h.unchanged(func() {
		// then it is refused, and told which "backup" holds
		var busy *lock.NotAcquiredError
		require.ErrorAs(t, h.ask(here, "backup", try).Refused(), &busy)
		require.Len(t, busy.Holders, 1)
		require.Equal(t, there.cmd.Process.Pid, busy.Holders[0].PID)
		require.NotEqual(t, os.Getpid(), busy.Holders[0].PID)
	})
	second := h.ask(here, "backup")
	await[lock.Queued](second)
	second.IsPending()

	// and is granted when the other one releases, not before
	there.order("release")
	there.await("Released")
	second.Granted()
	require.Greater(t, second.token(), token)

	// and inside this process only the context of the Hold makes it the same one
	require.ErrorAs(t, h.ask(here, "backup", try).Refused(), new(*lock.NotAcquiredError))
	guard, _ := h.guard(here, "backup")
	err := guard.Do(t.Context(), lockguard.Requirement{Scope: "another"}, func(ctx context.Context) error {
		_, err := guard.Acquire(ctx, requirement(try))
		return err
	})
	require.ErrorAs(t, err, new(*lock.NotAcquiredError))
	second.release()
	require.NoError(t, guard.Do(t.Context(), requirement(), func(ctx context.Context) error {
		outer, _ := lockguard.FromContext(ctx)
		inner, err := guard.Acquire(ctx, requirement(try))
		require.NoError(t, err)
		require.Equal(t, outer.Token(), inner.Token())
		require.Len(t, h.Ephemerals(), 1)

		// whose release frees nothing
		require.NoError(t, inner.Release(ctx))
		require.Equal(t, "backup", h.holder())
		return ctx.Err()
	}))
	require.Empty(t, h.Ephemerals())
}
