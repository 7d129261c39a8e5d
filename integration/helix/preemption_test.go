package helix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// declared is how long Helix's "original" says that its cleanup may take.
const declared = 5 * time.Minute

// patience is how long a request waits that does not wait for the cleanup. On a
// busy machine the holder needs some of it to hear of its preemption.
const patience = 10 * time.Second

// original is the holder of Helix's priority cases: priority 1, a lease of one
// hour, and a cleanup that takes as long as the test wants, whatever it says.
func (f *fixture) original(says time.Duration) (*user, *chore) {
	f.Helper()
	c := newChore(f)
	u := f.works("original", []lockguard.Hook{c.hook}, at(1), lease(time.Hour), waiting(time.Second), cleanup(says))
	return u, c
}

// Helix 11
func TestHigherPriorityRequestIsGrantedWhenTheCleanupIsDone(t *testing.T) {
	h := newFixture(t)

	// given that original holds
	original, chore := h.original(declared)

	// when priority 2 asks politely and is ready to wait
	higher := h.asks("higher", at(2), waiting(2*declared))

	// then original learns who comes, and cleans up under the lock while the other waits
	sent := await[lock.PreemptSent](higher)
	require.Equal(t, "original", sent.Holder.Owner)
	asked := await[lock.PreemptRequested](original)
	require.Equal(t, "higher", asked.By.Owner)
	require.Equal(t, declared, asked.Grace)
	require.False(t, asked.Forceful)
	chore.begins()
	require.Equal(t, "original", h.holder())
	require.Equal(t, []string{"higher"}, h.waiters())
	higher.IsPending()

	// and when it is done with that, higher holds
	chore.end()
	higher.Granted()
	require.Equal(t, "higher", h.holder())
	require.EqualValues(t, 1, chore.runs.Load())
	var preempted *lockguard.PreemptedError
	require.ErrorAs(t, original.ended(), &preempted)
	require.NoError(t, await[lockguard.CleanupDone](original).Err)
	none[lockguard.CleanupOverrun](original)
	none[lock.TakenOver](higher)
	require.Greater(t, higher.token(), original.token())
}

// Helix 12 and 39: and what a holder declares is not what ends it; a polite request
// waits for the cleanup itself.
func TestPoliteRequestFailsWhenTheCleanupTakesLongerThanItWaits(t *testing.T) {
	t.Parallel()
	for how, says := range map[string]time.Duration{
		"as declared":          declared,
		"longer than declared": patience / 4,
	} {
		t.Run(how, func(t *testing.T) {
			h := newFixture(t)

			// given that original holds
			original, chore := h.original(says)

			// when priority 2 asks politely, and waits less than the cleanup takes, and another waits behind it
			higher := h.asks("higher", at(2), waiting(patience))
			await[lock.PreemptRequested](original)
			chore.begins()
			behind := h.asks("behind", at(1))
			await[lock.Queued](behind)
			err := higher.Refused()

			// then it learns so, not before its time, and nothing of its request is left
			var pending *lock.CleanupPendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorContains(t, err, "cleanup of the holder has not finished")
			require.GreaterOrEqual(t, pending.Waited, patience)
			require.Equal(t, []string{"original"}, harness.Owners(pending.Holders))
			state := h.state()
			require.Equal(t, []string{"original"}, harness.Owners(state.Holders))
			require.Empty(t, state.Holders[0].PreemptedBy)
			require.Equal(t, []string{"behind"}, harness.Owners(state.Waiters))

			// and original learns that, and holds until its cleanup is done
			if says < patience {
				await[lockguard.CleanupOverrun](original)
			}
			await[lock.PreemptionWithdrawn](original)
			behind.IsPending()
			require.NotContains(t, higher.names(), "Acquired")

			// and its release is in good order
			chore.end()
			behind.Granted()
			require.ErrorAs(t, original.ended(), new(*lockguard.PreemptedError))
			require.NoError(t, await[lockguard.Released](original).Err)
			none[lockguard.Lost](original)
			require.Equal(t, "behind", h.holder())
		})
	}
}

// Helix 13
func TestForcefulRequestTakesTheLockWhenItsWaitingIsOver(t *testing.T) {
	h := newFixture(t)

	// given that original holds
	original, chore := h.original(declared)

	// when priority 2 asks by force, and waits less than the cleanup takes
	began := time.Now() // its notice that it has asked may come late
	higher := h.asks("higher", at(2), forceful, waiting(patience))

	// then original learns how long it has, and that it is by force
	asked := await[lock.PreemptRequested](original)
	require.Equal(t, "higher", asked.By.Owner)
	require.Equal(t, patience, asked.Grace)
	require.True(t, asked.Forceful)
	chore.begins()

	// and the other holds when that is over, not before, though the cleanup is not done
	higher.Granted()
	taken := awaitEvent[lock.TakenOver](higher)
	require.GreaterOrEqual(t, taken.At.Sub(began), patience)
	require.Equal(t, []string{"original"}, harness.Owners(taken.Notice.(lock.TakenOver).From))
	require.Equal(t, "higher", h.holder())
	require.Greater(t, higher.token(), original.token())

	// and original knows that, and its cleanup too; whether it hears before that the grace is over is a matter of milliseconds
	lost := original.loses()
	require.Equal(t, lock.LossTaken, lost.Reason)
	require.Equal(t, "higher", lost.By)
	err := original.ended()
	require.ErrorAs(t, err, new(*lockguard.PreemptedError))
	require.ErrorAs(t, err, new(*lockguard.LostError))
	require.Error(t, chore.cause, "the context of the hook has not ended")
	require.Equal(t, "higher", h.holder())
}

// Helix 14: the one that is overtaken is not refused, but stays queued behind.
func TestWaitingRequestIsDisplacedByAHigherOneAndStaysQueuedBehind(t *testing.T) {
	h := newFixture(t)

	// given that original holds, and priority 2 waits for it to clean up
	original, chore := h.original(declared)
	two := h.asks("two", at(2), waiting(2*declared))
	await[lock.PreemptSent](two)
	await[lock.PreemptRequested](original)
	chore.begins()

	// when priority 3 asks
	three := h.asks("three", at(3), waiting(2*declared))
	await[lock.PreemptSent](three)

	// then 2 learns by whom it is displaced, and stands behind that one
	require.Equal(t, "three", await[lock.Displaced](two).By.Owner)
	require.Equal(t, []string{"three", "two"}, h.waiters())
	two.IsPending()

	// and it is 3 that preempts original, and gets the lock after the one cleanup
	harness.Eventually(t, func() bool {
		asking := h.state().Holders[0].PreemptedBy
		return len(asking) == 1 && asking[0].Owner == "three" && asking[0].Reason == priority.Outranked
	}, "3 asks, and 2 does not")
	require.Equal(t, "original", h.holder())
	chore.end()
	three.Granted()
	require.Equal(t, "three", h.holder())
	require.EqualValues(t, 1, chore.runs.Load())
	two.IsPending()

	// and 2 when 3 has released
	three.release()
	two.Granted()
	require.Equal(t, "two", h.holder())
	require.Greater(t, two.token(), three.token())
	require.Greater(t, three.token(), original.token())
}
