package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A whole exec is four transactions: its session begins, the lock is taken, the lock is released, the session
// ends. The servers' time is asked for, by a write, only when something needs it.
func TestExecTakesFourTransactions(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	transactions := func(args ...string) int64 {
		t.Helper()
		before := server.Zxid()
		args = append([]string{"exec", "--zk", server.Addr(), "--scope", "cluster/orders"}, args...)
		out, err := exec.Command("lockkeeper", append(args, "--", "true")...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return server.Zxid() - before
	}
	transactions() // which makes the root and the lock's node

	require.EqualValues(t, 4, transactions())
	_, err := server.Get("/lockkeeper/clock")
	require.ErrorContains(t, err, "no node", "the time was not read")

	require.EqualValues(t, 4, transactions("--lease", "1m", "--priority", "5", "--cleanup", "5s"))
	require.EqualValues(t, 4, transactions("--lock-delay", "5s"))
}
