package locks

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A request lists the queue twice: before its node is created, and after.
const secondListing = 1

// Curator L1
func TestListingThatFailsIsToldAndLeavesNoRequest(t *testing.T) {
	h := share(t)
	shell := h.Shell()

	// given a holder
	holder := h.hold("holder")
	node := lockNode(holder)

	// when a request has joined, and then may not list the queue
	wire := &tripwire{}
	c := h.Client(through(wire))
	require.NoError(t, c.Ready(t.Context()))
	joined := 0
	wire.set(beforeListing, secondListing, func() {
		joined = len(h.Ephemerals())
		if _, err := shell.SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1); err != nil {
			t.Error(err)
		}
	})
	victim := h.Acquire(h.lock(c), "victim")

	// then it fails with that error, and its node is gone
	var access *recipes.AccessError
	require.ErrorAs(t, victim.Refused(), &access)
	require.Equal(t, node, access.Node)
	require.Equal(t, 2, joined)
	require.Len(t, h.Ephemerals(), 1)

	// and the lock goes on
	_, err := shell.SetACL(node, harness.WorldACL, -1)
	require.NoError(t, err)
	next := h.queued("next")
	holder.Release()
	next.Granted()
}

// Curator L2
func TestServerThatDiesWithTheSessionDuringTheListingIsTold(t *testing.T) {
	const session, patience = time.Second, 3 * time.Second
	h := alone(t)

	// given a holder with a long session
	holder := h.Hold(h.lock(h.Client(harness.SessionTimeout(time.Minute))), "holder")

	// when a request has joined, and the server dies as it lists the queue, for longer than the session lasts
	wire := &tripwire{}
	c := h.Client(harness.SessionTimeout(session), through(wire))
	require.NoError(t, c.Ready(t.Context()))
	joined := 0
	wire.set(beforeListing, secondListing, func() {
		joined = len(h.Ephemerals())
		if err := h.Server.Kill(); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	victim := h.Acquire(h.lock(c), "victim", harness.Within(patience))

	// then it ends when it said it would, and says what was wrong
	err := victim.Refused()
	var gone *recipes.UnavailableError
	require.ErrorAs(t, err, &gone)
	require.ErrorContains(t, err, h.Server.Addr())
	require.True(t, recipes.IsNotAcquired(err))
	require.GreaterOrEqual(t, time.Since(start), patience)
	require.Equal(t, 2, joined)

	// and when the server is back, its node goes with its session, and the holder still holds
	require.NoError(t, h.Server.Restart(t.Context()))
	harness.Eventually(t, func() bool { return len(h.Ephemerals()) == 1 }, "the dead request has gone")
	h.heldBy(c, "holder")
	holder.Release()
}
