package locks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// N2: an operator's delete evicts a waiter, and a holder. It makes no second holder.
func TestEvictedHolderLearnsOfItAndTheOthersGoOn(t *testing.T) {
	h := share(t)
	onlooker := h.Client()

	// given a holder and two waiters
	holder := h.hold("holder")
	token := holder.Token()
	victim, next := h.queued("victim"), h.queued("next")

	// when an operator deletes the node of the first waiter
	h.Delete(h.nodeOf(h.state(onlooker).Waiters[0].ID))

	// then that one learns of it, and the others go on
	var evicted *lock.EvictedError
	require.ErrorAs(t, victim.Refused(), &evicted)
	require.Equal(t, "users", evicted.Scope)
	require.Equal(t, []string{"next"}, harness.Owners(h.state(onlooker).Waiters))

	// when an operator deletes the node of the holder
	h.Delete(holder.Node())

	// then it learns why, and the waiter holds with a greater token
	loss := holder.Lost().Err
	require.Equal(t, lock.LossDeleted, loss.Reason)
	require.Equal(t, token, loss.Token)
	next.Granted()
	require.Greater(t, next.Token(), token)

	// and its release changes nothing
	require.ErrorAs(t, holder.Granted().Release(t.Context()), new(*lock.LostError))
	h.heldBy(onlooker, "next")
}
