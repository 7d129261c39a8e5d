package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startDev runs dev with its temporary directories below one, until it has begun.
func startDev(t *testing.T, temporary string, args ...string) *exec.Cmd {
	t.Helper()
	dev := exec.Command("lockkeeper", append([]string{"dev", "--listen", "127.0.0.1:0", "--console", "off"}, args...)...)
	dev.Env = append(os.Environ(), "TMPDIR="+temporary)
	out, err := dev.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dev.Start())
	t.Cleanup(func() {
		_ = dev.Process.Kill() // unless it has ended
		_ = dev.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "export LOCKKEEPER_ZK=") {
	}
	require.NoError(t, lines.Err())
	go func() {
		for lines.Scan() { // it must not wait for a reader
		}
	}()
	return dev
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestDevRemovesWhatAKilledDevHasLeft(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()

	// given a dev that was killed, with its credentials and the files of its jobs
	killed := startDev(t, temporary)
	left := namesIn(t, temporary)
	require.Len(t, left, 2, "the credentials and the jobs' files")
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	require.Equal(t, left, namesIn(t, temporary), "nothing was cleaned up")

	// and one that runs, and what is somebody else's
	runs := startDev(t, temporary, "--no-jobs")
	own := namesIn(t, temporary)
	require.Len(t, own, 1, "that of the killed one is away")
	require.NotContains(t, left, own[0])
	target := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(target, scratchLock), nil, 0o600))
	require.NoError(t, os.Symlink(target, filepath.Join(temporary, scratchPrefix+"link")))
	require.NoError(t, os.Mkdir(filepath.Join(temporary, scratchPrefix+"young"), 0o700))
	shared := filepath.Join(temporary, scratchPrefix+"shared")
	require.NoError(t, os.Mkdir(shared, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(shared, scratchLock), nil, 0o600))
	require.NoError(t, os.Chmod(shared, 0o777)) //nolint:gosec // others may have put anything there
	elsewhere := filepath.Join(temporary, scratchPrefix+"astray")
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, scratchLock), nil, 0o600))
	require.NoError(t, os.Symlink(target, filepath.Join(elsewhere, scratchFiles)))

	// when another one starts and ends
	next := startDev(t, temporary, "--no-jobs")
	require.NoError(t, next.Process.Signal(os.Interrupt))
	require.NoError(t, next.Wait())

	// then all of that is where it was, but for what a dead process has left
	require.ElementsMatch(t, []string{own[0], scratchPrefix + "link", scratchPrefix + "young", scratchPrefix + "shared"}, namesIn(t, temporary))
	require.Equal(t, []string{scratchLock}, namesIn(t, target))
	require.NoError(t, runs.Process.Signal(os.Interrupt))
	require.NoError(t, runs.Wait())
	require.NotContains(t, namesIn(t, temporary), own[0])
}
