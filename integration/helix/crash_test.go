package helix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 50
func TestLockOfACrashedOwnerIsFreeAfterItsSessionTimeout(t *testing.T) {
	h := newFixture(t)

	// given a process that holds the lock for an hour and with time to clean up, and others that wait
	owner := h.process("owner", 10*tick, plainly)
	owner.order("acquire", at(9), lease(time.Hour), cleanup(declared))
	token := owner.await("Acquired").Token
	equal := h.asks("equal", at(9))
	await[lock.Queued](equal)
	lower := h.asks("lower")
	await[lock.Queued](lower)
	require.Equal(t, "owner", h.holder())

	// when it is killed
	require.NoError(t, owner.cmd.Process.Kill())

	// then the next one holds without its lease or its cleanup, and no preemption was needed
	equal.Granted()
	require.Equal(t, []string{"Waiting", "Queued", "Acquired"}, equal.names())
	require.Greater(t, equal.token(), token)
	require.Equal(t, "equal", h.holder())
	require.Equal(t, []string{"lower"}, h.waiters())
	equal.release()
	lower.Granted()
}
