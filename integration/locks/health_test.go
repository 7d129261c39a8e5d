package locks

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

func TestClientTellsHowItAndZooKeeperGetOn(t *testing.T) {
	h := alone(t)
	healthy := func(c *lock.Client, why string, ok func(lock.Health) bool) lock.Health {
		t.Helper()
		var seen lock.Health
		harness.Eventually(t, func() bool { seen = c.Health(); return ok(seen) }, "%s: %+v", why, c.Health())
		return seen
	}
	connected := func(reconnects, expirations uint64) func(lock.Health) bool {
		return func(x lock.Health) bool { // a server that has just started may hang up once more
			return x.State == zkclient.SessionConnected && x.Err == nil && x.Reconnects >= reconnects && x.Expirations == expirations
		}
	}

	// given
	c := h.Client()
	require.NoError(t, c.Ready(t.Context()))
	now := healthy(c, "it has just connected", connected(0, 0))
	require.Equal(t, c.SessionTimeout(), now.Timeout)
	require.Positive(t, now.Left)
	require.LessOrEqual(t, now.Left, now.Timeout*11/12, "the margin is kept")

	// when the server stops: what is held is safe for ever less time
	require.NoError(t, h.Server.Stop())
	before := healthy(c, "the server has stopped", func(x lock.Health) bool { return x.State == zkclient.SessionSuspended && x.Err != nil }).Left
	healthy(c, "time goes by", func(x lock.Health) bool { return x.Left < before })

	// and comes back
	require.NoError(t, h.Server.Restart(t.Context()))
	back := healthy(c, "the server is back", connected(1, 0))

	// when the session ends: there is a new one, on a new connection
	h.Expire(c)
	healthy(c, "the session was ended", connected(back.Reconnects+1, 1))

	require.NoError(t, c.Close(t.Context()))
	closed := c.Health()
	require.Equal(t, zkclient.SessionClosed, closed.State)
	require.Zero(t, closed.Left)
	require.EqualValues(t, 1, closed.Expirations, "Close is no expiration")
}

func TestEveryOperationIsReportedWithWhatBecameOfIt(t *testing.T) {
	h := alone(t)
	type kind struct {
		name   string
		result zkclient.OperationResult
	}
	var mu sync.Mutex
	told := map[kind]int{}
	c := h.Client(harness.SessionTimeout(harness.Mortal))
	c.OnOperation(func(o zkclient.Operation) {
		mu.Lock()
		defer mu.Unlock()
		told[kind{o.Name, o.Result}]++
		if o.Took < 0 || o.Took > harness.Patience {
			told[kind{"impossible", o.Result}]++
		}
	})
	seen := func() map[kind]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(told)
	}

	// when locks are taken
	ann := h.Hold(h.lock(c), "ann")
	bob := h.Acquire(h.lock(c), "bob")
	bob.Queued()
	ann.Release()
	bob.Release()

	// then
	for _, want := range []string{"multi", "get", "children"} {
		require.Positive(t, seen()[kind{want, zkclient.OperationOK}], "%s in %v", want, seen())
	}
	for k := range seen() {
		require.Contains(t, zkclient.OperationNames(), k.name)
		require.Contains(t, zkclient.OperationResults(), k.result)
	}

	// what is not answered is lost
	require.NoError(t, h.Server.Pause())
	carl := h.Acquire(h.lock(c), "carl")
	harness.Eventually(t, func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(seen())), func(k kind) bool { return k.result == zkclient.OperationLost })
	}, "an operation is lost")
	require.NoError(t, h.Server.Resume())
	carl.Release()

	// the callback is not called any more; a ping may be under way
	c.OnOperation(nil)
	before := seen()[kind{"multi", zkclient.OperationOK}]
	h.Hold(h.lock(c), "dora").Release()
	require.Equal(t, before, seen()[kind{"multi", zkclient.OperationOK}])
}
