package locks

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// N2
func TestWaiterWhoseNodeIsDeletedGetsAnErrorAndNeverTheLock(t *testing.T) {
	h := share(t)
	shell := h.Shell()
	onlooker := h.Client()

	// given a holder and two waiters
	holder := h.hold("holder")
	victim := h.queued("victim")
	next := h.queued("next")

	// when an operator deletes the node of the first one
	require.NoError(t, shell.Delete(h.nodeOf(h.state(onlooker).Waiters[0].ID), -1))

	// then that one is told, and the others go on
	var evicted *recipes.EvictedError
	require.ErrorAs(t, victim.Refused(), &evicted)
	require.Equal(t, "users", evicted.Scope)
	require.Equal(t, []string{"next"}, harness.Owners(h.state(onlooker).Waiters))
	holder.Release()
	next.Granted()
}

// The same for the holder: an operator's delete evicts it, and makes no second
// holder.
func TestHolderWhoseNodeIsDeletedIsToldAndTheNextOneHolds(t *testing.T) {
	h := share(t)
	shell := h.Shell()

	// given a holder and a waiter
	holder := h.hold("holder")
	token := holder.Token()
	waiter := h.queued("waiter")

	// when an operator deletes the node of the holder
	require.NoError(t, shell.Delete(holder.Node(), -1))

	// then it is told why, and the waiter holds with a greater token
	loss := holder.Lost().Err
	require.Equal(t, recipes.LossDeleted, loss.Reason)
	require.Equal(t, token, loss.Token)
	waiter.Granted()
	require.Greater(t, waiter.Token(), token)

	// and its release changes nothing
	require.ErrorAs(t, holder.Granted().Release(t.Context()), new(*recipes.LostError))
	h.heldBy(h.Client(), "waiter")
}

// A takeover that never reached the server took nothing: the holder gave the
// lock away itself.
func TestTakeoverThatWasNotCarriedOutIsNotTold(t *testing.T) {
	h := share(t)
	holder := h.hold("holder")

	// when the connection of a forceful one breaks before its takeover is sent, and the holder releases
	wire := &tripwire{}
	c := h.Client(through(wire))
	require.NoError(t, c.Ready(t.Context()))
	wire.set(beforeTransaction, 1, func() { // the first one asks the holder to go
		wire.cut()
		if err := holder.Granted().Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	boss := h.Acquire(h.lock(c), "boss", harness.At(1), harness.Forceful)
	boss.Granted()

	// then nobody was taken over
	require.Len(t, harness.All[recipes.PreemptSent](boss.Notices), 1)
	require.Empty(t, harness.All[recipes.TookOver](boss.Notices))
	require.Empty(t, harness.All[recipes.Lost](holder.Notices))
	require.Empty(t, h.state(h.Client()).Evicted)
}
