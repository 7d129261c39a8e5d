package helix

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Helix 39
func TestFailedPreemptionIsWithdrawnAndTheHolderToldAndStillHolds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)

	// given that A holds and cleans up because B asks, and that C waits behind B
	original, chore := h.original(declared)
	b := h.ask(h.client(), "B", at(5), waiting(patience))
	await[lockguard.PreemptRequested](t, original.told)
	chore.begins(t)
	c := h.ask(h.client(), "C", at(1))
	await[lockguard.Queued](t, c.told)

	// when B's wait fails
	require.ErrorAs(t, b.refused(), new(*recipes.CleanupPendingError))

	// then nothing of it is left at the server when it is told so
	state := h.state()
	require.Equal(t, []string{"original"}, owners(state.Holders))
	require.Empty(t, state.Holders[0].PreemptedBy)
	require.Equal(t, []string{"C"}, owners(state.Waiters))

	// and A is told that nobody asks any more, and holds until its cleanup is done
	await[lockguard.PreemptionWithdrawn](t, original.told)
	require.NoError(t, chore.cause)
	require.Equal(t, "original", h.holder())
	c.waits()

	// and then the next one holds
	chore.end()
	c.holds()
	require.ErrorAs(t, original.ended(), new(*lockguard.PreemptedError))
	require.Equal(t, "C", h.holder())
	require.NotContains(t, b.told.names(), "Acquired")
}

// Helix 40
func TestRequestThatFailedIsNeverGrantedLater(t *testing.T) {
	t.Parallel()

	t.Run("in the queue", func(t *testing.T) {
		t.Parallel()
		for why, request := range map[string][]change{
			"acquire timeout":        {within(100 * time.Millisecond)},
			"acquire timeout, asked": {at(5), within(100 * time.Millisecond)},
			"waiting timeout":        {at(5), waiting(100 * time.Millisecond)},
			"no time to wait":        {at(5), waiting(0)},
			"a try":                  {at(5), try},
		} {
			t.Run(why, func(t *testing.T) {
				t.Parallel()
				failedRequestStaysOut(t, request, nil)
			})
		}
	})

	t.Run("at the moment of the grant", func(t *testing.T) {
		t.Parallel()
		const short = 25 * time.Millisecond
		grantMeetsFailure(t, recipes.IsNotAcquired, func(round int, lead time.Duration) ([]change, func(*user)) {
			if round%2 == 0 {
				fails := time.Now().Add(short)
				return []change{within(short)}, func(*user) { <-time.After(time.Until(fails) - lead) }
			}
			return []change{at(5), waiting(short)}, func(b *user) {
				fails := await[lockguard.PreemptSent](t, b.told).At.Add(short)
				<-time.After(time.Until(fails) - lead)
			}
		})
	})
}

// Helix 41
func TestRequestThatWasCancelledIsNeverGrantedLater(t *testing.T) {
	t.Parallel()
	shutdown := errors.New("the caller shuts down")

	t.Run("in the queue", func(t *testing.T) {
		t.Parallel()
		for how, request := range map[string][]change{
			"equal":    {},
			"polite":   {at(5)},
			"forceful": {at(5), forceful},
		} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				failedRequestStaysOut(t, request, shutdown)
			})
		}
	})

	t.Run("at the moment of the grant", func(t *testing.T) {
		t.Parallel()
		cancelled := func(err error) bool { return errors.Is(err, shutdown) }
		grantMeetsFailure(t, cancelled, func(round int, lead time.Duration) ([]change, func(*user)) {
			request := [][]change{{}, {at(5)}, {at(5), forceful}}[round%3]
			return request, func(b *user) {
				await[lockguard.Queued](t, b.told)
				time.AfterFunc(lead, func() { b.cancel(shutdown) })
			}
		})
	})
}

// failedRequestStaysOut lets a request fail, by its own timeouts or by a cancel
// with the given cause, while A holds.
func failedRequestStaysOut(t *testing.T, request []change, cancel error) {
	t.Helper()
	h := newHouse(t)

	// given that A holds and B asks
	a := h.hold(h.client(), "A", lease(time.Hour), cleanup(declared))
	b := h.ask(h.client(), "B", request...)
	if cancel != nil {
		await[lockguard.Queued](t, b.told)
		b.cancel(cancel)
	}

	// when B is told that it has failed
	err := b.refused()
	if cancel != nil {
		require.ErrorIs(t, err, cancel)
	} else {
		require.True(t, recipes.IsNotAcquired(err), "%v", err)
	}

	// then its request goes, and A still holds
	h.eventually("B's request is still there", func() bool { return len(h.waiters()) == 0 })
	require.Equal(t, "A", h.holder())

	// and when A releases, the lock is free for anybody, and B never gets it
	a.release()
	require.Empty(t, h.contenders())
	c := h.hold(h.client(), "C", try)
	require.Equal(t, "C", h.holder())
	c.release()
	require.Empty(t, h.contenders())
	require.Equal(t, "NotAcquired", b.told.names()[len(b.told.names())-1])
	require.NotContains(t, b.told.names(), "Acquired")
}

// grantMeetsFailure lets A release at about the moment at which B's request
// fails, many times. prepare returns what B asks for, and what returns when B
// is going to fail that long after.
func grantMeetsFailure(t *testing.T, expected func(error) bool, prepare func(round int, lead time.Duration) ([]change, func(*user))) {
	t.Helper()
	const rounds = 60
	h := newHouse(t)
	dice := rand.New(rand.NewPCG(rounds, 40))
	ca, cb, cc := h.client(), h.client(), h.client()
	granted, lead := 0, time.Millisecond
	for round := range rounds {
		// given that A holds
		a := h.hold(ca, fmt.Sprint("A ", round), cleanup(declared))

		// when B's request fails, and A releases
		request, ripe := prepare(round, time.Duration(float64(lead)*(0.5+dice.Float64())))
		b := h.ask(cb, fmt.Sprint("B ", round), request...)
		ripe(b)
		a.release()

		// then B holds, and that is true; or it has failed, and whoever comes next gets the lock
		err := b.ended()
		if err == nil {
			granted++
			lead -= lead / 8 // home in on the moment, however fast the machine is
			require.Equal(t, b.owner, h.holder())
			b.release()
			continue
		}
		lead += lead / 7
		require.True(t, expected(err), "%v", err)
		require.Nil(t, b.hold)
		c := h.hold(cc, fmt.Sprint("C ", round))
		require.Equal(t, c.owner, h.holder())
		c.release()
		require.NotContains(t, b.told.names(), "Acquired")
	}
	t.Logf("B was granted %d times, and failed %d times, in the end %s after the release", granted, rounds-granted, lead)
	h.empties()
}
