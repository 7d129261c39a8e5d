package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// N5, Helix 50
func TestHolderThatIsCutOffKnowsBeforeAnotherClientIsGranted(t *testing.T) {
	h := share(t)

	// given a client behind a proxy that holds a lock, and one under a guard
	proxy := netfault.New(t, h.Server.Addr())
	c := h.Client(harness.Servers(proxy.Addr()), harness.SessionTimeout(harness.Mortal))
	hold, err := h.guard(c, "guarded").Acquire(t.Context(), lockguard.Requirement{Scope: "guarded"})
	require.NoError(t, err)
	holder := h.Hold(h.lock(c), "holder", harness.Lease(time.Hour), harness.Cleanup(time.Hour))

	// and others that wait for both, with a connection of their own
	other := h.Client()
	successor, guarded := h.Acquire(h.lock(other), "successor"), h.Acquire(h.Lock(other, "guarded"), "guarded successor")
	successor.Queued()
	guarded.Queued()
	last := h.Acquire(h.lock(other), "last")
	last.Queued()

	// when the network swallows all packets
	require.NoError(t, proxy.Blackhole())

	// then each knows of its loss when the server has freed its lock, also where a busy machine tells it late
	successor.Granted()
	require.ErrorAs(t, holder.Granted().Check(), new(*lock.LostError), "the holder did not know")
	require.Empty(t, harness.All[lock.PreemptSent](successor.Notices), "it has waited for a cleanup")
	last.IsPending()
	guarded.Granted()
	require.ErrorAs(t, hold.Check(), new(*lock.LostError))
	require.ErrorAs(t, context.Cause(hold.Context()), new(*lock.LostError), "the work went on")

	// and the token is old
	lost := holder.Lost().Err
	require.Equal(t, lock.LossSession, lost.Reason)
	require.Greater(t, successor.Token(), lost.Token)
	require.Error(t, hold.Release(t.Context()))
	successor.Release()
	last.Granted()
	require.NoError(t, proxy.Pass())
}

// The server still hears the holder, so its session lives; but the holder
// cannot know that. It must give up the lock, and must not keep it from others
// once the network is back.
func TestHolderThatHearsNoAnswersLosesAndLeavesNothingInTheWay(t *testing.T) {
	h := share(t)

	// given a holder behind a proxy, and a waiter
	proxy := netfault.New(t, h.Server.Addr())
	c := h.Client(harness.Servers(proxy.Addr()), harness.SessionTimeout(harness.Mortal))
	holder := h.Hold(h.lock(c), "holder")
	waiter := h.queued("waiter")

	// when the answers vanish, and nothing else
	require.NoError(t, proxy.Blackhole(netfault.ToClient))

	// then the holder learns of its loss
	require.Equal(t, lock.LossSession, holder.Lost().Err.Reason)

	// and when the network is back, the waiter holds, whether the session survived or not
	require.NoError(t, proxy.Pass())
	waiter.Granted()
	require.ErrorAs(t, holder.Granted().Release(t.Context()), new(*lock.LostError))
}
