package helix

import (
	"errors"
	"testing"
	"time"

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

// Helix 40; at the moment of the grant: TestHandOverToOneThatGivesUpReachesTheNext, in package interleavings.
func TestRequestThatFailedIsNeverGrantedLater(t *testing.T) {
	t.Parallel()
	for why, request := range map[string][]change{
		"acquire timeout":        {within(100 * time.Millisecond)},
		"acquire timeout, asked": {at(5), within(100 * time.Millisecond)},
		"waiting timeout":        {at(5), waiting(100 * time.Millisecond)},
		"no time to wait":        {at(5), waiting(0)},
		"a try":                  {at(5), try},
	} {
		t.Run(why, func(t *testing.T) { failedRequestStaysOut(t, request, nil) })
	}
}

// Helix 41; at the moment of the grant: TestGrantWhoseCallerHasLeftIsHandedOn, in package interleavings.
func TestRequestThatWasCancelledIsNeverGrantedLater(t *testing.T) {
	t.Parallel()
	for how, request := range map[string][]change{
		"equal":    {},
		"polite":   {at(5)},
		"forceful": {at(5), forceful},
	} {
		t.Run(how, func(t *testing.T) { failedRequestStaysOut(t, request, errors.New("the caller shuts down")) })
	}
}

// failedRequestStaysOut lets a request fail, by its own timeouts or by a cancel
// with the given cause, while A holds.
func failedRequestStaysOut(t *testing.T, request []change, cancel error) {
	t.Helper()
	h := newFixture(t)

	// given that A holds and B asks
	a := h.holds("A", lease(time.Hour), cleanup(declared))
	b := h.asks("B", request...)
	if cancel != nil {
		await[lock.Queued](b)
		b.cancel(cancel)
	}

	// when B learns that it has failed
	err := b.Refused()
	if cancel != nil {
		require.ErrorIs(t, err, cancel)
	} else {
		require.True(t, lock.IsNotAcquired(err), "%v", err)
	}

	// then its request goes, and A still holds
	harness.Eventually(h, func() bool { return len(h.waiters()) == 0 }, "B's request is still there")
	require.Equal(t, "A", h.holder())

	// and when A releases, the lock is free for any request, and B never gets it
	a.release()
	require.Empty(t, h.Ephemerals())
	c := h.holds("C", try)
	require.Equal(t, "C", h.holder())
	c.release()
	require.Empty(t, h.Ephemerals())
	require.Equal(t, "NotAcquired", b.names()[len(b.names())-1])
	require.NotContains(t, b.names(), "Acquired")
}
