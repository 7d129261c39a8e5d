package locks

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A request lists the queue twice: before its node is created, and after.
const secondListing = 1

// Curator L1
func TestListingThatFailsIsToldAndLeavesNoRequest(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	shell := h.shell()

	// given a holder
	holder := h.hold(h.lock(h.client()), "holder")
	node := h.lockNode(holder.grant.ID())

	// when a request has joined, and then may not list the queue
	wire := &tripwire{}
	c := h.client(through(wire))
	require.NoError(t, c.Ready(t.Context()))
	joined := 0
	wire.set(beforeListing, secondListing, func() {
		joined = len(h.contenders())
		if _, err := shell.SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1); err != nil {
			t.Error(err)
		}
	})
	victim := h.ask(h.lock(c), "victim")

	// then it fails with that error, and its node is gone
	var access *recipes.AccessError
	require.ErrorAs(t, victim.refused(), &access)
	require.Equal(t, node, access.Node)
	require.Equal(t, 2, joined)
	require.Len(t, h.contenders(), 1)

	// and the lock goes on
	_, err := shell.SetACL(node, worldACL, -1)
	require.NoError(t, err)
	next := h.ask(h.lock(h.client()), "next")
	next.queued()
	holder.release()
	next.granted()
}

// Curator L2
func TestServerThatDiesWithTheSessionDuringTheListingIsTold(t *testing.T) {
	t.Parallel()
	const session, patience = time.Second, 3 * time.Second
	h := ownHouse(t)

	// given a holder with a long session
	holder := h.hold(h.lock(h.client(timeout(time.Minute))), "holder")

	// when a request has joined, and the server dies as it lists the queue, for longer than the session lasts
	wire := &tripwire{}
	c := h.client(timeout(session), through(wire))
	require.NoError(t, c.Ready(t.Context()))
	joined := 0
	wire.set(beforeListing, secondListing, func() {
		joined = len(h.contenders())
		if err := h.server.Kill(); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	victim := h.ask(h.lock(c), "victim", within(patience))

	// then it ends when it said it would, and says what was wrong
	err := victim.refused()
	var gone *recipes.UnavailableError
	require.ErrorAs(t, err, &gone)
	require.ErrorContains(t, err, h.server.Addr())
	require.True(t, recipes.IsNotAcquired(err))
	require.GreaterOrEqual(t, time.Since(start), patience)
	require.Less(t, time.Since(start), patience+3*time.Second)
	require.Equal(t, 2, joined)

	// and when the server is back, its node goes with its session, and the holder still holds
	require.NoError(t, h.server.Restart(t.Context()))
	require.Eventually(t, func() bool { return len(h.contenders()) == 1 }, soon, 5*time.Millisecond)
	require.Equal(t, []string{"holder"}, owners(h.state(c).Holders))
	holder.release()
}
