package devserver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(leaveAnOrphan())
	}
	goleak.VerifyTestMain(m)
}

func TestFailedStartTellsWhy(t *testing.T) {
	program := filepath.Join(t.TempDir(), "temporal")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho the disk is full >&2\nexit 1\n"), 0o700))
	t.Setenv("TEMPORAL_CLI", program)
	_, err := devserver.Run(t.Context(), devserver.Settings{})
	require.ErrorContains(t, err, "the disk is full")
}

func TestServerEndsWithItsParent(t *testing.T) {
	// given a process with a server
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanVariable+"=1")
	said, err := parent.Output()

	// when it ends without a word, as by a panic
	require.ErrorContains(t, err, "signal: killed")

	// then
	orphan, err := strconv.Atoi(strings.TrimSpace(string(said)))
	require.NoError(t, err, "%s", said)
	harness.Eventually(t, func() bool { return gone(orphan) }, "it is gone")
}

const orphanVariable = "LOCKKEEPER_DEVSERVER_ORPHAN"

func leaveAnOrphan() int {
	server, err := devserver.Run(context.Background(), devserver.Settings{})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	// It has said what it says at its start: a later word into a broken pipe would end it as well.
	for !strings.Contains(server.LogTail(10), "Metrics:") {
		<-time.After(10 * time.Millisecond)
	}
	os.Stdout.WriteString(strconv.Itoa(server.PID()))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	return 1
}

// gone tells whether a process has ended, also before it was waited for.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestProgramIsTheOneOfTheModule(t *testing.T) {
	text, err := os.ReadFile("../../temporalserver/go.mod")
	require.NoError(t, err)
	found := regexp.MustCompile(`github\.com/temporalio/cli v(\S+)`).FindSubmatch(text)
	require.Len(t, found, 2)
	require.Equal(t, devserver.Version, string(found[1]))
}

func TestMissingProgramSaysWhatToDo(t *testing.T) {
	t.Setenv("TEMPORAL_CLI", "/nowhere/temporal")
	_, err := devserver.Find()
	require.ErrorContains(t, err, "TEMPORAL_CLI=/nowhere/temporal cannot be run")

	t.Setenv("TEMPORAL_CLI", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err = devserver.Find()
	require.ErrorContains(t, err, "run `make setup`")
}
