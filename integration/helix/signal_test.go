package helix

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// mortal is how long a session lasts that a test ends at the server. Once in a while the server forgets to hang up then,
// and the client finds it out alone.
const mortal = 8 * time.Second

// lasting is a session that outlasts harness.Patience: what a holder of it hears by then, it does not hear by its clock.
const lasting = 2 * time.Minute

// Helix 45
func TestForcedLossInterruptsTheWorkBeforeTheLossShows(t *testing.T) {
	h := newFixture(t)
	ca, cb := h.Client(harness.SessionTimeout(lasting)), h.Client()
	for round := range 20 {
		// given that A holds, since a moment or for a while, with nothing to clean up
		a := h.hold(ca, fmt.Sprint("A ", round), lease(time.Hour))
		for range round {
			h.state()
		}
		shown := make(chan error, 1)
		go func() {
			<-a.Granted().Lost()
			shown <- context.Cause(a.Granted().Context())
		}()

		// when B takes the lock by force and waits for nothing
		b := h.hold(cb, fmt.Sprint("B ", round), at(5), forceful, waiting(0))

		// then A's work is interrupted, and knows by whom, not later than anything else tells of the loss
		extension := a.Granted().Extend(t.Context(), time.Hour)
		if errors.As(extension, new(*lockguard.LostError)) {
			require.Error(t, a.Granted().Context().Err(), "the loss showed in an answer first")
		}
		cause := harness.Receive(t, shown, "A has not been told")
		require.Error(t, cause, "the signal of the loss came first")
		requireForcedBy(t, b.owner, cause)
		require.Equal(t, b.owner, a.loses().By)
		await[lock.TakenOver](b)
		require.Equal(t, b.owner, h.holder())
		b.release()
	}
}

// requireForcedBy checks the cause of an interruption by force without grace:
// the holder was preempted, or has heard of that too late.
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
	require.Equal(t, lock.LossTaken, lost.Reason)
	require.Equal(t, owner, lost.By)
}
