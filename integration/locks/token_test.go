package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// N10
func TestTokenGrowsWithEveryGrantHoweverItCameAbout(t *testing.T) {
	t.Parallel()
	h := ownHouse(t)
	c := h.client(timeout(30 * time.Second))
	last := recipes.Token(0)
	grew := func(how string, u *user) {
		t.Helper()
		token := u.token()
		h.story.tell("token", "%s after %s", token, how)
		require.Greater(t, token, last, "after %s", how)
		last = token
		// Everybody agrees on it.
		require.Equal(t, token, h.state(c).Holders[0].Token, "after %s", how)
	}

	// given the first grant ever, then the token grows after each of these:
	holder := h.hold(h.lock(h.client()), "first", at(1), cleanup(time.Hour))
	grew("the first grant", holder)

	// a release and a new request
	holder.release()
	holder = h.hold(h.lock(h.client()), "second", at(1), cleanup(time.Hour))
	grew("a release", holder)

	// a hand-over to one that had joined long ago
	waiter := h.ask(h.lock(h.client()), "third", at(1), cleanup(time.Hour))
	waiter.queued()
	holder.release()
	holder = waiter
	grew("a hand-over", holder)

	// a jump: the more important one joined last, and is granted first
	early := h.ask(h.lock(h.client()), "early", cleanup(0))
	early.queued()
	late := h.ask(h.lock(h.client()), "late", at(5), cleanup(time.Hour))
	await[recipes.PreemptSent](t, late.told)
	holder.release()
	grew("a jump in the queue", late)

	// the one that had joined before it, granted after it
	late.release()
	holder = early
	grew("being jumped", holder)

	// a takeover
	boss := h.ask(h.lock(h.client()), "boss", at(9), forceful)
	grew("a takeover", boss)

	// a lease that has run out, asked for and extended in between
	boss.release()
	doomed := h.client()
	holder = h.hold(h.lock(doomed), "doomed", at(2))
	grew("a release by the boss", holder)
	require.NoError(t, holder.grant.Extend(t.Context(), time.Hour))
	require.Equal(t, last, holder.token())
	require.Equal(t, last, h.state(c).Holders[0].Token, "after its extension")

	// the loss of the holder's session
	heir := h.ask(h.lock(h.client()), "heir", at(2))
	heir.queued()
	h.expire(doomed)
	grew("the loss of a session", heir)
	heir.release()

	// a restart of the server
	require.NoError(t, h.server.Restart(t.Context()))
	require.NoError(t, c.Ready(t.Context()))
	holder = h.hold(h.lock(h.client()), "survivor")
	grew("a restart of the server", holder)

	// the removal of the lock's node by an administrator
	node := h.lockNode(holder.grant.ID())
	holder.release()
	h.nobodyThere()
	require.NoError(t, h.shell().Delete(node, -1))
	holder = h.hold(h.lock(h.client()), "settler")
	grew("the removal of the lock node", holder)
}
