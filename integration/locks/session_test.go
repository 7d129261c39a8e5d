package locks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Curator M2
func TestServerThatStopsAndRestartsStopsNobody(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		session time.Duration
		outage  func(h *fixture, ann *harness.Request)
	}{
		"the holder releases after it": {30 * time.Second, func(h *fixture, ann *harness.Request) {
			require.NoError(h, h.Server.Stop())
			require.NoError(h, h.Server.Restart(h.Context()))
			ann.Release()
		}},
		"the holder releases during it, and that goes on by itself": {30 * time.Second, func(h *fixture, ann *harness.Request) {
			require.NoError(h, h.Server.Kill())
			ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
			defer cancel()
			require.ErrorIs(h, ann.Granted().Release(ctx), context.DeadlineExceeded)
			require.NoError(h, h.Server.Restart(h.Context()))
		}},
		"it only freezes until the holder is at risk": {8 * time.Second, func(h *fixture, ann *harness.Request) {
			require.NoError(h, h.Server.Pause())
			harness.Await[recipes.AtRisk](h, ann.Notices)
			require.NoError(h, h.Server.Resume())
			ann.Release()
		}},
	} {
		t.Run(what, func(t *testing.T) {
			h := alone(t)

			// given two users of one client: one holds, one waits
			client := h.Client(harness.SessionTimeout(c.session))
			ann := h.Hold(h.lock(client), "ann")
			bob := h.Acquire(h.lock(client), "bob")
			bob.Queued()
			id, _ := client.Session()
			last := ann.Token()

			// when the server is away, and comes back
			c.outage(h, ann)

			// then both finish in turn, in the same session
			require.Greater(t, bob.Token(), last)
			h.drain(bob)
			again, _ := client.Session()
			require.Equal(t, id, again)
			require.ErrorIs(t, ann.Granted().Release(t.Context()), recipes.ErrReleased)
			require.Empty(t, harness.All[recipes.Lost](ann.Notices))
			require.Empty(t, harness.All[recipes.Requeued](bob.Notices))
		})
	}
}

// Curator M3
func TestWaiterOfTheSessionThatExpiredQueuesAgainAndAcquires(t *testing.T) {
	h := share(t)

	// given one that holds and one that waits, in one session
	c := h.Client(allSeen)
	ann := h.Hold(h.lock(c), "ann")
	bob := h.Acquire(h.lock(c), "bob")
	bob.Queued()
	dead := h.state(h.Client()).Waiters[0].ID

	// when that session expires
	h.Expire(c)

	// then the holder is told, and the waiter acquires in the new session
	loss := ann.Lost().Err
	require.Equal(t, recipes.LossSession, loss.Reason)
	harness.Await[recipes.Requeued](h, bob.Notices)
	bob.Granted()
	require.NotEqual(t, dead, bob.Granted().ID())
	require.Len(t, h.Ephemerals(), 1)

	// and what the holder does now fails with that loss
	var lost *recipes.LostError
	require.ErrorAs(t, ann.Granted().Release(t.Context()), &lost)
	require.Equal(t, recipes.LossSession, lost.Reason)
}

// Kazoo K3
func TestWaiterOfTheExpiredSessionAcquiresWhenTheHolderOfAnotherReleases(t *testing.T) {
	h := share(t)
	waiting := h.Client()

	// given a holder and a waiter, and one more in the session of the waiter that holds something else
	holder := h.hold("holder")
	waiter := h.Acquire(h.lock(waiting), "waiter")
	waiter.Queued()
	other := h.Hold(h.Lock(waiting, "other"), "other")

	// when that session expires, and the holder releases
	h.Expire(waiting)
	other.Lost()
	harness.Await[recipes.Requeued](h, waiter.Notices)
	waiter.Queued()
	waiter.IsPending()
	holder.Release()

	// then the waiter acquires
	waiter.Granted()
	require.Greater(t, waiter.Token(), holder.Token())
}

// etcd T1: ours queues again instead of giving up.
func TestDeadRequestIsNeverGranted(t *testing.T) {
	h := share(t)
	onlooker := h.Client()
	victim := h.Client()

	for round := range 8 {
		// given a holder and a waiter
		holder := h.hold(fmt.Sprint("holder ", round))
		waiter := h.Acquire(h.lock(victim), fmt.Sprint("victim ", round))
		waiter.Queued()
		dead := h.state(onlooker).Waiters[0]
		require.Equal(t, waiter.Owner, dead.Owner)

		// when the session of the waiter ends at the moment that the holder releases
		var both sync.WaitGroup
		both.Go(func() { h.Expire(victim) })
		both.Go(func() {
			if round%2 == 0 { // then; in the other rounds: at the same time
				harness.Await[recipes.Requeued](h, waiter.Notices)
			}
			holder.Release()
		})
		both.Wait()

		// then what it gets is another request, of a session that lives; or it
		// was granted before the end, and is told that this is over
		waiter.Granted()
		if waiter.Granted().ID() == dead.ID {
			waiter.Lost()
			require.NotZero(t, round%2)
			continue
		}
		require.Len(t, harness.All[recipes.Requeued](waiter.Notices), 1)
		now := h.state(onlooker)
		require.Equal(t, []string{waiter.Owner}, harness.Owners(now.Holders))
		require.Equal(t, waiter.Granted().ID(), now.Holders[0].ID)
		require.NotEqual(t, dead.Session, now.Holders[0].Session)
		id, _ := victim.Session()
		require.Equal(t, id, now.Holders[0].Session)
		require.Greater(t, waiter.Token(), holder.Token())
		waiter.Release()
	}
	h.NoEphemerals()
}

// etcd T4
func TestDeathOfTheWaiterInFrontGrantsNothing(t *testing.T) {
	h := share(t)
	onlooker := h.Client()

	// given a holder, a victim, and a waiter behind the victim
	holder := h.hold("holder")
	doomed := h.Client()
	victim := h.Acquire(h.lock(doomed), "victim")
	victim.Queued()
	waiter := h.acquire("waiter")
	require.Equal(t, 2, waiter.Queued().Position)

	// when the victim's session dies
	h.Expire(doomed)
	harness.Await[recipes.Requeued](h, victim.Notices)
	victim.Queued()

	// then the waiter still waits for the holder, and is next
	waiter.IsPending()
	state := h.state(onlooker)
	require.Equal(t, []string{"holder"}, harness.Owners(state.Holders))
	require.Equal(t, []string{"waiter", "victim"}, harness.Owners(state.Waiters))

	// and is granted when that releases, before the victim
	holder.Release()
	waiter.Granted()
	victim.IsPending()
	waiter.Release()
	victim.Granted()
}

// N14
func TestExpiryAmongManyEventsIsNotMissed(t *testing.T) {
	h := share(t)
	const scopes = 40

	// given a client with a lock, and with requests for forty locks of another client
	other, doomed := h.Client(), h.Client()
	own := h.Hold(h.Lock(doomed, "own"), "own")
	var holders, waiters []*harness.Request
	for i := range scopes {
		holders = append(holders, h.Hold(h.Lock(other, fmt.Sprint("scope ", i)), fmt.Sprint("holder ", i)))
		waiters = append(waiters, h.Acquire(h.Lock(doomed, fmt.Sprint("scope ", i)), fmt.Sprint("waiter ", i)))
	}
	for _, w := range waiters {
		w.Queued()
	}

	// when all its watches fire, and its session expires among them
	id, password := doomed.Session()
	var storm sync.WaitGroup
	for i, g := range holders {
		storm.Go(func() { _ = g.Granted().Release(context.WithoutCancel(t.Context())) })
		if i == scopes/2 {
			storm.Go(func() {
				if err := h.Server.Expire(t.Context(), id, password); err != nil {
					t.Error(err)
				}
			})
		}
	}
	storm.Wait()

	// then the loss is told
	require.Equal(t, recipes.LossSession, own.Lost().Err.Reason)

	// and each request holds in the new session, or held in the old one and is told the loss
	for i, w := range waiters {
		w.Granted()
		state, err := other.Lock(t.Context(), fmt.Sprint("scope ", i))
		require.NoError(t, err)
		if len(state.Holders) == 0 || state.Holders[0].ID != w.Granted().ID() {
			w.Lost()
			continue
		}
		require.NotEqual(t, id, state.Holders[0].Session)
		require.Len(t, harness.All[recipes.Requeued](w.Notices), 1)
	}
}
