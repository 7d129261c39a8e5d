package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// N10, Helix 52
func TestTokenGrowsWithEveryGrantHoweverItCameAbout(t *testing.T) {
	h := alone(t)
	c := h.Client()
	last := lock.Token(0)
	grew := func(how string, r *harness.Request) *harness.Request {
		t.Helper()
		token := r.Token()
		h.History.Add("token", "%s after %s", token, how)
		require.Greater(t, token, last, "after %s", how)
		last = token
		require.Equal(t, token, h.state(c).Holders[0].Token, "after %s: all clients agree on it", how)
		return r
	}
	slow := harness.Cleanup(time.Hour)

	// given the first grant ever, then the token grows after each of these:
	mine := h.Client()
	grew("the first grant", h.Hold(h.lock(mine), "first")).Release()
	grew("a release, for the same client", h.Hold(h.lock(mine), "second")).Release()
	holder := grew("a release, for another one", h.hold("third", harness.At(1), slow))

	// a hand-over to one that had joined long ago
	waiter := h.queued("fourth", harness.At(1), slow)
	holder.Release()
	holder = grew("a hand-over", waiter)

	// a jump: the more important one joined last, and is granted first
	early := h.queued("early", harness.Cleanup(0))
	late := h.acquire("late", harness.At(5), slow)
	harness.Await[lock.PreemptRequested](h, holder.Notices)
	holder.Release()
	grew("a jump in the queue", late).Release()
	grew("being jumped", early)

	// a takeover from one that has no time to clean up, or whose lease is over
	boss := grew("a takeover", h.acquire("boss", harness.At(9), harness.Forceful))
	require.NoError(t, boss.Granted().Extend(t.Context(), time.Millisecond))
	require.Equal(t, last, boss.Token(), "of an extended lease")
	doomed := h.Client()
	grew("the end of a lease", h.Acquire(h.lock(doomed), "doomed"))

	// the end of the holder's session, or of its node
	heir := h.queued("heir")
	h.Expire(doomed)
	grew("the loss of a session", heir)
	waiter = h.queued("waiter")
	h.Delete(heir.Node())
	grew("the removal of the holder's node", waiter).Release()

	// a restart of the server
	require.NoError(t, h.Server.Restart(t.Context()))
	require.NoError(t, c.Ready(t.Context()))
	holder = grew("a restart of the server", h.hold("survivor"))

	// the removal of the lock's node by an administrator
	node := lockNode(holder)
	holder.Release()
	h.NoEphemerals()
	h.Delete(node)
	grew("the removal of the lock node", h.hold("settler"))
}
