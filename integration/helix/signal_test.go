package helix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// bound is how late a holder may hear of its loss on a busy machine. It is far
// below the timeout of most sessions, so that it is not the clock that tells.
const bound = 10 * time.Second

// Helix 45
func TestForcedLossInterruptsTheWorkBeforeTheLossShows(t *testing.T) {
	t.Parallel()
	const rounds = 30
	h := newHouse(t)
	ca, cb := h.client(), h.client()
	dice := rand.New(rand.NewPCG(rounds, 45))
	var delays []time.Duration
	for round := range rounds {
		// given that A holds, since a moment or for a while, with nothing to clean up
		a := h.hold(ca, fmt.Sprint("A ", round), lease(time.Hour))
		<-time.After(time.Duration(dice.IntN(20)) * time.Millisecond)
		shown, ended := make(chan error, 1), make(chan time.Time, 1)
		go func() {
			<-a.hold.Lost()
			shown <- context.Cause(a.hold.Context())
		}()
		go func() {
			<-a.hold.Context().Done()
			ended <- time.Now()
		}()

		// when B takes the lock by force and waits for nothing
		b := h.hold(cb, fmt.Sprint("B ", round), at(5), forceful, waiting(0))

		// then A's work is interrupted, and knows by whom, not later than anything else tells of the loss
		extension := a.hold.Extend(t.Context(), time.Hour)
		if errors.As(extension, new(*lockguard.LostError)) {
			require.Error(t, a.hold.Context().Err(), "the loss showed in an answer first")
		}
		cause := receive(t, shown, "A has not been told")
		require.Error(t, cause, "the signal of the loss came first")
		requireForcedBy(t, b.owner, cause)
		require.Equal(t, b.owner, a.loses().Err.By)
		taken := await[lockguard.TakenOver](t, b.told)
		delays = append(delays, receive(t, ended, "A has not been interrupted").Sub(taken.At))
		require.Equal(t, b.owner, h.holder())
		b.release()
	}
	slices.Sort(delays)
	t.Logf("from the takeover to the end of the work's context: median %s, worst %s", delays[rounds/2], delays[rounds-1])
	require.Less(t, delays[rounds-1], bound)
}

// requireForcedBy checks the cause of an interruption by force without grace:
// the holder was asked to go, or has heard of that too late.
func requireForcedBy(t testing.TB, owner string, cause error) {
	t.Helper()
	if preempted, ok := errors.AsType[*lockguard.PreemptedError](cause); ok {
		require.True(t, preempted.Forceful)
		require.Zero(t, preempted.Grace)
		require.Equal(t, owner, preempted.By)
		return
	}
	var lost *lockguard.LostError
	require.ErrorAs(t, cause, &lost)
	require.Equal(t, recipes.LossTaken, lost.Reason)
	require.Equal(t, owner, lost.By)
}

// Helix 46
func TestEveryLossIsToldInTime(t *testing.T) {
	t.Parallel()

	t.Run("taken by force", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		a := h.hold(h.client(), "A", lease(time.Hour))
		b := h.hold(h.client(), "B", at(5), forceful, waiting(0))
		lost := a.losesAfter("takeover", await[lockguard.TakenOver](t, b.told).At, bound)
		require.Equal(t, recipes.LossTaken, lost.Reason)
		require.Equal(t, "B", lost.By)
	})

	t.Run("taken at the end of the lease", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		a := h.hold(h.client(), "A", lease(100*time.Millisecond))
		b := h.hold(h.client(), "B")
		lost := a.losesAfter("takeover", await[lockguard.TakenOver](t, b.told).At, bound)
		require.Equal(t, recipes.LossTaken, lost.Reason)
		requireLeaseOver(t, lost)
	})

	t.Run("session expired", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		c := h.client(session(mortal))
		a := h.hold(c, "A", lease(time.Hour))
		h.expire(c)
		lost := a.losesAfter("end of the session", time.Now(), bound)
		require.Equal(t, recipes.LossSession, lost.Reason)
	})

	t.Run("deleted by an administrator", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		a := h.hold(h.client(), "A", lease(time.Hour))
		h.evictHolder()
		lost := a.losesAfter("delete", time.Now(), bound)
		require.Equal(t, recipes.LossDeleted, lost.Reason)
	})

	// Nobody can tell a holder that is cut off: its own clock does.
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		const timeout = 4 * time.Second
		proxy := netfault.New(t, h.server.Addr())
		c := h.client(session(timeout), func(cfg *recipes.Config) { cfg.Servers = []string{proxy.Addr()} })
		a := h.hold(c, "A", lease(time.Hour))
		told := make(chan time.Time, 1)
		go func() {
			<-a.hold.Lost()
			told <- time.Now()
		}()
		b := h.ask(h.client(), "B")
		await[lockguard.Queued](t, b.told)
		require.NoError(t, proxy.Blackhole())
		lost := a.losesAfter("cut", time.Now(), timeout)
		require.Equal(t, recipes.LossSession, lost.Reason)

		// and before anybody else is granted
		b.holds()
		granted := await[lockguard.Acquired](t, b.told).At
		margin := granted.Sub(receive(t, told, "A has not been told"))
		t.Logf("told %s before another client was granted", margin)
		require.Positive(t, margin)
	})
}

// losesAfter waits until a holder has been told that it has lost the lock, and
// checks how long after its cause that was, and that its work was interrupted.
func (u *user) losesAfter(what string, since time.Time, limit time.Duration) *lockguard.LostError {
	u.h.t.Helper()
	lost := u.loses()
	took := lost.At.Sub(since)
	u.h.t.Logf("told %s after the %s", took.Round(10*time.Microsecond), what)
	require.Less(u.h.t, took, limit)
	require.ErrorAs(u.h.t, u.hold.Release(context.Background()), new(*lockguard.LostError))
	return lost.Err
}
