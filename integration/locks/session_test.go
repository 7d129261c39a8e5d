package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Curator M2
func TestServerThatStopsAndRestartsStopsNoClient(t *testing.T) {
	t.Parallel()
	for what, outage := range map[string]func(h *fixture, ann *harness.Request){
		"the holder releases after it": func(h *fixture, ann *harness.Request) {
			require.NoError(h, h.Server.Stop())
			require.NoError(h, h.Server.Restart(h.Context()))
			ann.Release()
		},
		"the holder releases during it, and that goes on by itself": func(h *fixture, ann *harness.Request) {
			require.NoError(h, h.Server.Kill())
			ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
			defer cancel()
			require.ErrorIs(h, ann.Granted().Release(ctx), context.DeadlineExceeded)
			require.NoError(h, h.Server.Restart(h.Context()))
		},
		"it only freezes until the holder is at risk": func(h *fixture, ann *harness.Request) {
			require.NoError(h, h.Server.Pause())
			harness.Await[lock.AtRisk](h, ann.Notices)
			require.NoError(h, h.Server.Resume())
			ann.Release()
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := alone(t)

			// given two users of one client: one holds, one waits
			client := h.Client()
			ann := h.Hold(h.lock(client), "ann")
			bob := h.Acquire(h.lock(client), "bob")
			bob.Queued()
			id, _ := client.Session()
			last := ann.Token()

			// when the server is away, and comes back
			outage(h, ann)

			// then both finish in turn, in the same session
			require.Greater(t, bob.Token(), last)
			h.drain(bob)
			again, _ := client.Session()
			require.Equal(t, id, again)
			require.ErrorIs(t, ann.Granted().Release(t.Context()), lock.ErrReleased)
			require.Empty(t, harness.All[lock.Lost](ann.Notices))
			require.Empty(t, harness.All[lock.Requeued](bob.Notices))
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

	// then the holder learns of its loss, and the waiter acquires in the new
	// session
	loss := ann.Lost().Err
	require.Equal(t, lock.LossSession, loss.Reason)
	harness.Await[lock.Requeued](h, bob.Notices)
	bob.Granted()
	require.NotEqual(t, dead, bob.Granted().ID())
	require.Len(t, h.Ephemerals(), 1)

	// and what the holder does now fails with that loss
	var lost *lock.LostError
	require.ErrorAs(t, ann.Granted().Release(t.Context()), &lost)
	require.Equal(t, lock.LossSession, lost.Reason)
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
	harness.Await[lock.Requeued](h, victim.Notices)
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
