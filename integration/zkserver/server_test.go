package zkserver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

func TestPausedServerCanBeStopped(t *testing.T) {
	server := zkserver.Start(t)
	require.NoError(t, server.Pause())
	require.NoError(t, server.Stop())
	require.False(t, server.Alive())
	require.Error(t, server.Pause(), "it has ended")
}

func TestOptionsReachTheServer(t *testing.T) {
	server := zkserver.Start(t,
		zkserver.WithTick(100*time.Millisecond),
		zkserver.WithSessionTimeouts(time.Second, time.Minute),
		zkserver.WithFsync(),
		zkserver.WithOptimisingCompiler(),
		zkserver.WithHeap(512),
		zkserver.WithSetting("extendedTypesEnabled", "true"),
		zkserver.WithJVMFlags("-Dlockkeeper.probe=here"))

	c := connect(t, server.Addr(), 30*time.Second)
	_, err := c.CreateTTL("/ttl", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Hour)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(server.Dir(), os.TempDir()), "data in %s is not on disk", server.Dir())
	for server, settings := range map[*zkserver.Server][]string{
		server:           {"tickTime=100", "minSessionTimeout=1000", "maxSessionTimeout=60000"},
		shared.Server(t): {"tickTime=200", "minSessionTimeout=400", "maxSessionTimeout=4000"}, // 2 and 20 ticks
	} {
		config, err := server.Command(t.Context(), "conf")
		require.NoError(t, err)
		for _, setting := range settings {
			require.Contains(t, config, setting+"\n")
		}
	}
}

func TestFailedStartTellsWhyAndLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := zkserver.Run(t.Context(), zkserver.WithFsync(), zkserver.WithSetting("tickTime", "soon"))
	require.ErrorContains(t, err, "the process has ended")
	require.ErrorContains(t, err, "NumberFormatException", "the log is part of the error")
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestStartGivesUpWhenItTakesTooLong(t *testing.T) {
	_, err := zkserver.Run(t.Context(), zkserver.WithStartTimeout(time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "not serving after 1ms")
}

func TestCloseRemovesEverything(t *testing.T) {
	server, err := zkserver.Run(t.Context())
	require.NoError(t, err)
	require.DirExists(t, server.Dir())
	require.NoError(t, server.Close())
	require.NoDirExists(t, server.Dir())
	require.False(t, server.Alive())
	require.NoError(t, server.Close(), "closing again does nothing")
	require.Error(t, server.Restart(t.Context()))
}

func TestServerDiesWithItsParentAndTheNextStartCleansUp(t *testing.T) {
	if os.Getenv("ZKSERVER_TEST_CHILD") != "" {
		orphanMaker(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), "ZKSERVER_TEST_CHILD=1")
	out, err := child.CombinedOutput()
	require.Error(t, err, "it kills itself")
	_, rest, ok := strings.Cut(string(out), "SERVER ")
	require.True(t, ok, "output: %s", out)
	fields := strings.Fields(rest)
	pid, err := strconv.Atoi(fields[0])
	require.NoError(t, err)
	dir := fields[1]

	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, 3*time.Minute, 10*time.Millisecond,
		"the server still runs")
	require.DirExists(t, dir)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(dir, old, old))
	zkserver.Start(t)
	require.NoDirExists(t, dir)
}

func orphanMaker(t *testing.T) {
	t.Helper()
	server, err := zkserver.Run(t.Context())
	require.NoError(t, err)
	_, err = os.Stdout.WriteString("SERVER " + strconv.Itoa(server.PID()) + " " + server.Dir() + "\n")
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	<-t.Context().Done() // the signal arrives first
}

func TestMissingZooKeeperSaysWhatToDo(t *testing.T) {
	home := t.TempDir()
	t.Setenv("ZOOKEEPER_HOME", home)
	_, err := zkserver.Find()
	require.ErrorContains(t, err, "ZOOKEEPER_HOME="+home)

	t.Setenv("JAVA_HOME", home)
	_, err = zkserver.Find()
	require.ErrorContains(t, err, "JAVA_HOME="+home)
}

func TestZooKeeperHomeIsUsedBeforeDebiansPackage(t *testing.T) {
	home := t.TempDir()
	lib := filepath.Join(home, "lib")
	require.NoError(t, os.Mkdir(lib, 0o700))
	for _, name := range []string{"zookeeper-jute-3.9.3.jar", "zookeeper-3.9.3.jar", "logback-classic-1.3.0.jar"} {
		require.NoError(t, os.WriteFile(filepath.Join(lib, name), nil, 0o600))
	}
	t.Setenv("ZOOKEEPER_HOME", home)

	found, err := zkserver.Find()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(lib, "zookeeper-3.9.3.jar"), found.Jar)
	require.Len(t, found.Classpath, 3)
}
