package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// lockkeeperIn runs the program in a directory, with that in its environment.
func lockkeeperIn(t *testing.T, dir string, env ...string) func(args ...string) (code int, said string) {
	return func(args ...string) (int, string) {
		t.Helper()
		c := exec.Command("lockkeeper", args...)
		c.Dir, c.Env = dir, append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		require.NotNil(t, c.ProcessState, "%v", err)
		return c.ProcessState.ExitCode(), string(out)
	}
}

// withCredentials runs the program as a worker of a server; ran is a file that is not there yet.
func withCredentials(t *testing.T) (server *zktest.Server, lockkeeper func(...string) (int, string), ran string) {
	t.Helper()
	server, dir := zktest.RunT(t), t.TempDir()
	credentials := filepath.Join(dir, "digest")
	require.NoError(t, os.WriteFile(credentials, []byte("worker:secret\n"), 0o600))
	lockkeeper = lockkeeperIn(t, dir, "LOCKKEEPER_ZK="+server.Addr(), "LOCKKEEPER_ZK_DIGEST_FILE="+credentials)
	return server, lockkeeper, filepath.Join(dir, "ran")
}

// A client with credentials may be under a freeze. While that is unknown, nothing runs.
func TestExecRunsNothingWhileOverridesCannotBeTrusted(t *testing.T) {
	t.Parallel()
	server, lockkeeper, ran := withCredentials(t)
	code, said := lockkeeper("exec", "--scope", "cluster/orders", "--", "touch", ran)
	require.Zero(t, code, said)
	require.NoError(t, os.Remove(ran))

	// when there are overrides that any client could have written
	require.NoError(t, server.Create("/lockkeeper/overrides", nil))
	code, said = lockkeeper("exec", "--scope", "cluster/orders", "--", "touch", ran)

	// then
	require.Equal(t, exitConfig, code, said)
	require.Contains(t, said, "it is not known whether an operator has frozen it")
	require.Contains(t, said, "/lockkeeper/overrides")
	require.NoFileExists(t, ran)
}

// A ZooKeeper that answers everything but what the overrides are says nothing of a freeze.
func TestExecRunsNothingWhileOverridesAreNotKnown(t *testing.T) {
	t.Parallel()
	server, lockkeeper, ran := withCredentials(t)
	code, said := lockkeeper("exec", "--scope", "cluster/orders", "--", "true")
	require.Zero(t, code, said)
	code, said = lockkeeper("override", "apply", "INC-1", "--kind", "freeze", "--scope", "cluster/*", "--for", "1h", "-r", "disk full")
	require.Zero(t, code, said)

	// when
	slow := server.On(zktest.Op(zktest.GetData).Path("/lockkeeper/overrides")).Delay(2 * firstLook)
	code, said = lockkeeper("exec", "--scope", "cluster/orders", "--", "touch", ran)
	slow.Release()

	// then
	require.NoFileExists(t, ran)
	require.Equal(t, exitNotAcquired, code, said)
	require.Contains(t, said, "whether an operator has frozen it")
}

// A file that says where the lock is must not be left out for a mistake in it: the lock of
// another root excludes no other process.
func TestExecRunsNothingWhenTheFileInTheDirectoryCannotBeUsed(t *testing.T) {
	t.Parallel()
	server, dir := zktest.RunT(t), t.TempDir()
	file, ran := filepath.Join(dir, defaultFile), filepath.Join(dir, "ran")
	lockkeeper := lockkeeperIn(t, dir, "LOCKKEEPER_ZK="+server.Addr())
	good := "version: 1\nzookeeper: {root: /team}\njobs: {hand: {schedule: manual, run: [\"true\"]}}\n"
	require.NoError(t, os.WriteFile(file, []byte(good), 0o600))
	code, said := lockkeeper("exec", "--scope", "db", "--", "true")
	require.Zero(t, code, said)

	// when
	require.NoError(t, os.WriteFile(file, []byte(good+"jobz: {}\n"), 0o600))
	code, said = lockkeeper("exec", "--scope", "db", "--", "touch", ran)

	// then
	require.NoFileExists(t, ran)
	require.Equal(t, exitConfig, code, said)
	require.Contains(t, said, "jobz")
	code, said = lockkeeper("locks", "ls")
	require.Zero(t, code, said) // the output says that it was left out
	require.Contains(t, said, "cannot be used and is left out")
	code, said = lockkeeper("exec", "--zk", server.Addr(), "--root", "/team", "--scope", "db", "--", "true")
	require.Zero(t, code, said)
}
