package locks

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// N2
func TestWaiterWhoseNodeIsDeletedGetsAnErrorAndNeverTheLock(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()
	onlooker := h.client()

	// given a holder and two waiters
	holder := h.hold(h.lock(h.client()), "holder")
	victim := h.ask(h.lock(h.client()), "victim")
	victim.queued()
	next := h.ask(h.lock(h.client()), "next")
	next.queued()

	// when an operator deletes the node of the first one
	require.NoError(t, shell.Delete(h.node(h.state(onlooker).Waiters[0].ID), -1))

	// then that one is told, and the others go on
	var evicted *recipes.EvictedError
	require.ErrorAs(t, victim.refused(), &evicted)
	require.Equal(t, "users", evicted.Scope)
	require.Equal(t, []string{"next"}, owners(h.state(onlooker).Waiters))
	holder.release()
	next.granted()
}

// The same for the holder: an operator's delete evicts it, and makes no second
// holder.
func TestHolderWhoseNodeIsDeletedIsToldAndTheNextOneHolds(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a holder and a waiter
	holder := h.hold(h.lock(h.client()), "holder")
	token := holder.token()
	waiter := h.ask(h.lock(h.client()), "waiter")
	waiter.queued()

	// when an operator deletes the node of the holder
	require.NoError(t, shell.Delete(h.node(holder.grant.ID()), -1))

	// then it is told why, and the waiter holds with a greater token
	loss := await[recipes.Lost](t, holder.told).Err
	require.Equal(t, recipes.LossDeleted, loss.Reason)
	require.Equal(t, token, loss.Token)
	waiter.granted()
	require.Greater(t, waiter.token(), token)

	// and its release changes nothing
	var lost *recipes.LostError
	require.ErrorAs(t, holder.grant.Release(t.Context()), &lost)
	require.Equal(t, []string{"waiter"}, owners(h.state(h.client()).Holders))
}

// Whoever was taken over learns by whom; only an operator's delete is called
// one.
func TestHolderThatWasTakenOverIsToldByWhom(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder that needs no cleanup
	holder := h.hold(h.lock(h.client()), "holder")

	// when a more important one takes the lock by force
	boss := h.ask(h.lock(h.client()), "boss", at(1), forceful)
	boss.granted()

	// then the holder is told by whom, and the lock node says it too
	loss := await[recipes.Lost](t, holder.told).Err
	require.Equal(t, recipes.LossTaken, loss.Reason)
	require.Equal(t, "boss", loss.By)
	require.Equal(t, 1, count[recipes.TookOver](boss.told))
	require.Equal(t, "boss", h.state(h.client()).Evicted[0].By)
}

// It makes no difference to either of them when the answer to the takeover, or
// to any request before it, never comes.
func TestTakeoverWhoseAnswerIsLostIsToldLikeAnyOther(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	wire := &tripwire{}
	bosses, others := h.client(through(wire)), h.client()
	require.NoError(t, h.warm(bosses, others))

	steps := 0
	for tripped := true; tripped; steps++ {
		h.story.tell("test", "answer %d is lost", steps)

		// given a holder that needs no cleanup
		scope := fmt.Sprint("taken ", steps)
		holder := h.hold(h.scope(others, scope), "holder")

		// when a more important one takes the lock by force, over a connection that breaks
		wire.set(afterRequest, steps, wire.cut)
		boss := h.ask(h.scope(bosses, scope), "boss", at(1), forceful)
		boss.granted()
		tripped = wire.unset()

		// then both are told
		require.Equal(t, recipes.LossTaken, await[recipes.Lost](t, holder.told).Err.Reason, "answer %d is lost", steps)
		require.Equal(t, 1, count[recipes.TookOver](boss.told), "answer %d is lost", steps)
		boss.release()
	}
	t.Logf("lost each of %d answers", steps-1)
}

// A takeover that never reached the server took nothing: the holder gave the
// lock away itself.
func TestTakeoverThatWasNotCarriedOutIsNotTold(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	holder := h.hold(h.lock(h.client()), "holder")

	// when the connection of a forceful one breaks before its takeover is sent, and the holder releases
	wire := &tripwire{}
	c := h.client(through(wire))
	require.NoError(t, c.Ready(t.Context()))
	wire.set(beforeTransaction, 1, func() { // the first one asks the holder to go
		wire.cut()
		if err := holder.grant.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	boss := h.ask(h.lock(c), "boss", at(1), forceful)
	boss.granted()

	// then nobody was taken over
	require.Equal(t, 1, count[recipes.PreemptSent](boss.told))
	require.Zero(t, count[recipes.TookOver](boss.told))
	require.Zero(t, count[recipes.Lost](holder.told))
	require.Empty(t, h.state(h.client()).Evicted)
}
