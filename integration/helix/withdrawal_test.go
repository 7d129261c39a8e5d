package helix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 39
func TestFailedPreemptionIsWithdrawnAndTheHolderToldAndStillHolds(t *testing.T) {
	h := newFixture(t)

	// given that A holds and cleans up because B asks, and that C waits behind B
	original, chore := h.original(declared)
	b := h.asks("B", at(5), waiting(patience))
	await[lock.PreemptRequested](original)
	chore.begins()
	c := h.asks("C", at(1))
	await[lock.Queued](c)

	// when B's wait fails
	require.ErrorAs(t, b.Refused(), new(*lock.CleanupPendingError))

	// then nothing of it is left at the server when it learns so
	state := h.state()
	require.Equal(t, []string{"original"}, harness.Owners(state.Holders))
	require.Empty(t, state.Holders[0].PreemptedBy)
	require.Equal(t, []string{"C"}, harness.Owners(state.Waiters))

	// and A learns that the preemption was withdrawn, and holds until its cleanup
	// is done
	await[lock.PreemptionWithdrawn](original)
	require.NoError(t, chore.cause)
	require.Equal(t, "original", h.holder())
	c.IsPending()

	// and then the next one holds
	chore.end()
	c.Granted()
	require.ErrorAs(t, original.ended(), new(*lockguard.PreemptedError))
	require.Equal(t, "C", h.holder())
	require.NotContains(t, b.names(), "Acquired")
}
