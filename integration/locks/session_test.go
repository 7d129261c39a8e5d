package locks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator M2
func TestServerThatStopsAndRestartsStopsNobody(t *testing.T) {
	t.Parallel()

	t.Run("the holder releases after it", func(t *testing.T) {
		t.Parallel()
		h := ownHouse(t)

		// given two users of one client: one holds, one waits
		c := h.client(timeout(30 * time.Second))
		ann := h.hold(h.lock(c), "ann")
		bob := h.ask(h.lock(c), "bob")
		bob.queued()

		// when the server stops and restarts
		require.NoError(t, h.server.Stop())
		require.NoError(t, h.server.Restart(t.Context()))

		// then both finish in turn
		ann.release()
		bob.granted()
		require.Greater(t, bob.token(), ann.token())
		bob.release()
		require.Zero(t, count[recipes.Lost](ann.told))
		require.Zero(t, count[recipes.Requeued](bob.told))
		h.nobodyThere()
	})

	t.Run("the holder releases during it", func(t *testing.T) {
		t.Parallel()
		h := ownHouse(t)

		// given two users of one client: one holds, one waits, and no server
		c := h.client(timeout(30 * time.Second))
		ann := h.hold(h.lock(c), "ann")
		bob := h.ask(h.lock(c), "bob")
		bob.queued()
		require.NoError(t, h.server.Kill())

		// when the holder releases, the server restarts
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, ann.grant.Release(ctx), context.DeadlineExceeded)
		require.NoError(t, h.server.Restart(t.Context()))

		// then the release goes on by itself, and the other finishes too
		bob.granted()
		bob.release()
		require.ErrorIs(t, ann.grant.Release(t.Context()), recipes.ErrReleased)
		h.nobodyThere()
	})

	t.Run("it only freezes for a while", func(t *testing.T) {
		t.Parallel()
		h := ownHouse(t)

		// given two users of one client: one holds, one waits
		c := h.client(timeout(8 * time.Second))
		ann := h.hold(h.lock(c), "ann")
		bob := h.ask(h.lock(c), "bob")
		bob.queued()
		id, _ := c.Session()

		// when the server freezes until ann is at risk, and goes on
		require.NoError(t, h.server.Pause())
		await[recipes.AtRisk](t, ann.told)
		require.NoError(t, h.server.Resume())

		// then both finish in turn, in the same session
		ann.release()
		bob.granted()
		bob.release()
		again, _ := c.Session()
		require.Equal(t, id, again)
		require.Zero(t, count[recipes.Lost](ann.told))
		require.Zero(t, count[recipes.Requeued](bob.told))
		h.nobodyThere()
	})
}

// Curator M3
func TestWaiterOfTheSessionThatExpiredQueuesAgainAndAcquires(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given one that holds and one that waits, in one session
	c := h.client(allSeen)
	ann := h.hold(h.lock(c), "ann")
	bob := h.ask(h.lock(c), "bob")
	bob.queued()
	dead := h.state(h.client()).Waiters[0].ID

	// when that session expires
	h.expire(c)

	// then the holder is told, and the waiter acquires in the new session
	loss := await[recipes.Lost](t, ann.told).Err
	require.Equal(t, recipes.LossSession, loss.Reason)
	await[recipes.Requeued](t, bob.told)
	bob.granted()
	require.NotEqual(t, dead, bob.grant.ID())
	require.Len(t, h.contenders(), 1)

	// and what the holder does now fails with that loss
	var lost *recipes.LostError
	require.ErrorAs(t, ann.grant.Release(t.Context()), &lost)
	require.Equal(t, recipes.LossSession, lost.Reason)
}

// Kazoo K3
func TestWaiterOfTheExpiredSessionAcquiresWhenTheHolderOfAnotherReleases(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	waiting := h.client()

	// given a holder and a waiter, and one more in the session of the waiter that holds something else
	holder := h.hold(h.lock(h.client()), "holder")
	waiter := h.ask(h.lock(waiting), "waiter")
	waiter.queued()
	other := h.hold(h.scope(waiting, "other"), "other")

	// when that session expires, and the holder releases
	h.expire(waiting)
	await[recipes.Lost](t, other.told)
	await[recipes.Requeued](t, waiter.told)
	waiter.queued()
	waiter.waits()
	holder.release()

	// then the waiter acquires
	waiter.granted()
	require.Greater(t, waiter.token(), holder.token())
}

// etcd T1: ours queues again instead of giving up.
func TestDeadRequestIsNeverGranted(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()
	victim := h.client()

	for round := range 8 {
		// given a holder and a waiter
		holder := h.hold(h.lock(h.client()), fmt.Sprint("holder ", round))
		waiter := h.ask(h.lock(victim), fmt.Sprint("victim ", round))
		waiter.queued()
		dead := h.state(onlooker).Waiters[0]
		require.Equal(t, waiter.owner, dead.Owner)

		// when the session of the waiter ends at the moment that the holder releases
		var both sync.WaitGroup
		both.Go(func() { h.expire(victim) })
		both.Go(func() {
			if round%2 == 0 { // then; in the other rounds: at the same time
				await[recipes.Requeued](t, waiter.told)
			}
			holder.release()
		})
		both.Wait()

		// then what it gets is another request, of a session that lives; or it
		// was granted before the end, and is told that this is over
		waiter.granted()
		if waiter.grant.ID() == dead.ID {
			await[recipes.Lost](t, waiter.told)
			require.NotZero(t, round%2)
			continue
		}
		require.Equal(t, 1, count[recipes.Requeued](waiter.told))
		now := h.state(onlooker)
		require.Equal(t, []string{waiter.owner}, owners(now.Holders))
		require.Equal(t, waiter.grant.ID(), now.Holders[0].ID)
		require.NotEqual(t, dead.Session, now.Holders[0].Session)
		id, _ := victim.Session()
		require.Equal(t, id, now.Holders[0].Session)
		require.Greater(t, waiter.token(), holder.token())
		waiter.release()
	}
	h.nobodyThere()
}

// etcd T4
func TestDeathOfTheWaiterInFrontGrantsNothing(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	onlooker := h.client()

	// given a holder, a victim, and a waiter behind the victim
	holder := h.hold(h.lock(h.client()), "holder")
	doomed := h.client()
	victim := h.ask(h.lock(doomed), "victim")
	victim.queued()
	waiter := h.ask(h.lock(h.client()), "waiter")
	require.Equal(t, 2, waiter.queued().Position)

	// when the victim's session dies
	h.expire(doomed)
	await[recipes.Requeued](t, victim.told)
	victim.queued()

	// then the waiter still waits for the holder, and is next
	waiter.waits()
	state := h.state(onlooker)
	require.Equal(t, []string{"holder"}, owners(state.Holders))
	require.Equal(t, []string{"waiter", "victim"}, owners(state.Waiters))

	// and is granted when that releases, before the victim
	holder.release()
	waiter.granted()
	victim.waits()
	waiter.release()
	victim.granted()
}

// N14
func TestExpiryAmongManyEventsIsNotMissed(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	const scopes = 40

	// given a client with a lock, and with requests for forty locks of another client
	other, doomed := h.client(), h.client()
	own := h.hold(h.scope(doomed, "own"), "own")
	var holders, waiters []*user
	for i := range scopes {
		holders = append(holders, h.hold(h.scope(other, fmt.Sprint("scope ", i)), fmt.Sprint("holder ", i)))
		waiters = append(waiters, h.ask(h.scope(doomed, fmt.Sprint("scope ", i)), fmt.Sprint("waiter ", i)))
	}
	for _, w := range waiters {
		w.queued()
	}

	// when all its watches fire, and its session expires among them
	id, password := doomed.Session()
	var storm sync.WaitGroup
	for i, g := range holders {
		storm.Go(func() { _ = g.grant.Release(context.WithoutCancel(t.Context())) })
		if i == scopes/2 {
			storm.Go(func() {
				if err := h.server.Expire(t.Context(), id, password); err != nil {
					t.Error(err)
				}
			})
		}
	}
	storm.Wait()

	// then the loss is told
	require.Equal(t, recipes.LossSession, await[recipes.Lost](t, own.told).Err.Reason)

	// and each request holds in the new session, or held in the old one and is told the loss
	for i, w := range waiters {
		w.granted()
		state, err := other.Lock(t.Context(), fmt.Sprint("scope ", i))
		require.NoError(t, err)
		if len(state.Holders) == 0 || state.Holders[0].ID != w.grant.ID() {
			await[recipes.Lost](t, w.told)
			continue
		}
		require.NotEqual(t, id, state.Holders[0].Session)
		require.Equal(t, 1, count[recipes.Requeued](w.told))
	}
}
