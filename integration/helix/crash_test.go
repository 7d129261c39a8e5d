package helix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Helix 50
func TestLockOfACrashedOwnerIsFreeWithinItsSessionTimeout(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const (
		timeout = 10 * tick
		// A session ends on a tick of the server, which looks at each tick.
		atMost = timeout + 2*tick
		busy   = 20 * time.Second // for the machine
	)

	// given a process that holds the lock for an hour and with time to clean up, and others that wait
	owner := h.process("owner", timeout, plainly)
	owner.order("acquire", at(9), lease(time.Hour), cleanup(declared))
	token := owner.await("Acquired").Token
	equal := h.ask(h.client(), "equal", at(9))
	await[lockguard.Queued](t, equal.told)
	lower := h.ask(h.client(), "lower")
	await[lockguard.Queued](t, lower.told)
	require.Equal(t, "owner", h.holder())

	// when it is killed
	require.NoError(t, owner.cmd.Process.Kill())
	killed := time.Now()

	// then the next one holds within the session timeout, and nobody had to ask for anything
	equal.holds()
	took := await[lockguard.Acquired](t, equal.told).At.Sub(killed)
	t.Logf("session timeout %s, lease %s: granted %s after the crash", timeout, time.Hour, took.Round(time.Millisecond))
	require.Less(t, took, atMost+busy)
	require.Equal(t, []string{"Waiting", "Queued", "Acquired"}, equal.told.names())
	require.Greater(t, equal.token(), token)
	require.Equal(t, "equal", h.holder())
	require.Equal(t, []string{"lower"}, h.waiters())
	equal.release()
	lower.holds()
}
