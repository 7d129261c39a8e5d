package locks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// go-zookeeper Z1
func TestWaiterComesBeforeTheHolderThatComesBack(t *testing.T) {
	h := share(t)
	ann, bob := h.lock(h.Client()), h.lock(h.Client())

	// given that ann holds, and bob waits
	first := h.Hold(ann, "ann")
	second := h.Acquire(bob, "bob")
	second.Queued()

	// when ann releases, and asks again
	first.Release()
	third := h.Acquire(ann, "ann again")

	// then bob's turn comes before her next one
	before := second.Token() // known after a look at its node, which a release ends
	third.Queued()
	third.IsPending()
	second.Release()
	require.Less(t, first.Token(), before)
	require.Less(t, before, third.Token())
}
