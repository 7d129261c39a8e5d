package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// What a client remembers of an idle lock is void once the lock's node was
// removed: the one in its place counts its versions from the beginning, and
// may be held at the version that is remembered.
func TestMemoryOfRemovedLockNodeGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, refresh := range map[string]func(*fixture, *recipes.Client){
		"another scope noticed the removal": func(h *fixture, c *recipes.Client) {
			other := h.Hold(h.Lock(c, "other"), "refresher")
			other.Release()
		},
		"the session was replaced": func(h *fixture, c *recipes.Client) {
			before := h.Expire(c)
			harness.Eventually(h, func() bool { id, _ := c.Session(); return id != 0 && id != before }, "there is another session")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := share(t)

			// given a client that has left two locks idle
			ann := h.Client()
			first := h.Hold(h.lock(ann), "ann")
			node := lockNode(first)
			first.Release()
			other := h.Hold(h.Lock(ann, "other"), "ann")
			otherNode := lockNode(other)
			other.Release()

			// and both were removed, as garbage collection does it
			h.collect(node, otherNode)

			// and another client holds the first one since, at the version that ann remembers
			bob := h.hold("bob")
			require.Equal(t, node, lockNode(bob))

			// when ann asks again, having heard of the removal by another way
			refresh(h, ann)
			again := h.Acquire(h.lock(ann), "ann again", harness.Within(200*time.Millisecond))

			// then she does not hold beside bob
			var busy *recipes.NotAcquiredError
			require.ErrorAs(t, again.Refused(), &busy)
			h.heldBy(ann, "bob")
		})
	}
}
