package locks

import (
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// What a client remembers of an idle lock is void once the lock's node was
// removed: the one in its place counts its versions from the beginning, and
// may be held at the version that is remembered.
func TestMemoryOfRemovedLockNodeGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, refresh := range map[string]func(*house, *recipes.Client){
		"another scope noticed the removal": func(h *house, c *recipes.Client) {
			other := h.hold(h.scope(c, "other"), "refresher")
			other.release()
		},
		"the session was replaced": func(h *house, c *recipes.Client) {
			before := h.expire(c)
			require.Eventually(h.t, func() bool { id, _ := c.Session(); return id != 0 && id != before }, soon, time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := shareHouse(t)

			// given a client that has left two locks idle
			ann := h.client()
			first := h.hold(h.lock(ann), "ann")
			node := h.lockNode(first.grant.ID())
			first.release()
			other := h.hold(h.scope(ann, "other"), "ann")
			otherNode := path.Dir(h.node(other.grant.ID()))
			other.release()

			// and both were removed, as garbage collection does it
			shell := h.shell()
			_, stat, err := shell.Get(h.root)
			require.NoError(t, err)
			_, err = shell.Multi(
				&zk.SetDataRequest{Path: h.root, Version: stat.Version},
				&zk.DeleteRequest{Path: node, Version: -1},
				&zk.DeleteRequest{Path: otherNode, Version: -1})
			require.NoError(t, err)

			// and another client holds the first one since, at the version that ann remembers
			bob := h.hold(h.lock(h.client()), "bob")
			require.Equal(t, node, h.lockNode(bob.grant.ID()))

			// when ann asks again, having heard of the removal by another way
			refresh(h, ann)
			again := h.ask(h.lock(ann), "ann again", within(200*time.Millisecond))

			// then she does not hold beside bob
			var busy *recipes.NotAcquiredError
			require.ErrorAs(t, again.refused(), &busy)
			require.Equal(t, []string{"bob"}, owners(h.state(ann).Holders))
		})
	}
}
