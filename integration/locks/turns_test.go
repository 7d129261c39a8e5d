package locks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// go-zookeeper Z1
func TestWaiterComesBeforeTheHolderThatComesBack(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	ann, bob := h.lock(h.client()), h.lock(h.client())

	// given that ann holds, and bob waits
	first := h.hold(ann, "ann")
	second := h.ask(bob, "bob")
	second.queued()

	// when ann releases, and asks again
	first.release()
	third := h.ask(ann, "ann again")

	// then bob's turn comes before her next one
	before := second.token() // known after a look at its node, which a release ends
	third.queued()
	third.waits()
	second.release()
	require.Less(t, first.token(), before)
	require.Less(t, before, third.token())
}

// etcd T5: there both hold. Here one session is two strangers to itself.
func TestSessionThatLocksTwiceHoldsOnce(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c := h.client(allSeen)

	// given a session that holds, when it locks the same scope again by another object
	first := h.hold(h.lock(c), "first")
	second := h.ask(h.lock(c), "second")
	second.queued()
	tryer := h.ask(h.lock(c), "tryer", try)

	// then it holds once, and the second one waits for the first
	require.True(t, recipes.IsNotAcquired(tryer.refused()))
	second.waits()
	state := h.state(h.client())
	require.Equal(t, []string{"first"}, owners(state.Holders))
	require.Equal(t, []string{"second"}, owners(state.Waiters))
	require.Equal(t, state.Holders[0].Session, state.Waiters[0].Session)
	first.release()
	second.granted()
	require.Greater(t, second.token(), first.token())
}
