package locks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
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

// etcd T5: there both hold. Here one session is two strangers to itself.
func TestSessionThatLocksTwiceHoldsOnce(t *testing.T) {
	h := share(t)
	c := h.Client(allSeen)

	// given a session that holds, when it locks the same scope again by another object
	first := h.Hold(h.lock(c), "first")
	second := h.Acquire(h.lock(c), "second")
	second.Queued()
	tryer := h.Acquire(h.lock(c), "tryer", harness.Try)

	// then it holds once, and the second one waits for the first
	require.True(t, recipes.IsNotAcquired(tryer.Refused()))
	second.IsPending()
	state := h.state(h.Client())
	require.Equal(t, []string{"first"}, harness.Owners(state.Holders))
	require.Equal(t, []string{"second"}, harness.Owners(state.Waiters))
	require.Equal(t, state.Holders[0].Session, state.Waiters[0].Session)
	first.Release()
	second.Granted()
	require.Greater(t, second.Token(), first.Token())
}
