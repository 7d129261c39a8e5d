package helix

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 48
func TestSameOwnerInTwoProcessesIsTwoStrangers(t *testing.T) {
	h := newFixture(t)

	// given that a process holds the lock as "backup"
	there := h.process("backup", time.Minute, plainly)
	there.order("acquire")
	token := there.await("Acquired").Token

	// when this process asks as "backup" too
	here := h.Client()
	h.unchanged(func() {
		// then it is refused, and told which "backup" holds
		var busy *lock.NotAcquiredError
		require.ErrorAs(t, h.ask(here, "backup", try).Refused(), &busy)
		require.Len(t, busy.Holders, 1)
		require.Equal(t, there.cmd.Process.Pid, busy.Holders[0].PID)
		require.NotEqual(t, os.Getpid(), busy.Holders[0].PID)
	})
	second := h.ask(here, "backup")
	await[lock.Queued](second)
	second.IsPending()

	// and is granted when the other one releases, not before
	there.order("release")
	there.await("Released")
	second.Granted()
	require.Greater(t, second.token(), token)

	// and this process is a stranger to itself as well, without the context of its Hold
	require.ErrorAs(t, h.ask(here, "backup", try).Refused(), new(*lock.NotAcquiredError))
}
