package locks

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Curator L1
func TestListingThatFailsIsReportedAndLeavesNoRequest(t *testing.T) {
	h := share(t)
	shell := h.Shell()

	// given a holder
	holder := h.hold("holder")
	node := lockNode(holder)

	// when a request has joined, and then may not list the queue
	c, wire := h.wired()
	joined := 0
	h.meanwhile(wire.On(zktest.Op(zktest.GetChildren).Nth(2)).Hold(), func() { // the first one is before its node is created
		joined = len(h.Ephemerals())
		if _, err := shell.SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1); err != nil {
			t.Error(err)
		}
	})
	victim := h.Acquire(h.lock(c), "victim")

	// then it fails with that error, and its node is gone
	var access *lock.AccessError
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
