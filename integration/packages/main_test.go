package packages

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// -update writes the golden files anew, to be read in the diff.
var update = flag.Bool("update", false, "write the golden files anew")

var (
	zookeeper = zkserver.Shared{Options: []zkserver.Option{zkserver.WithSessionTimeouts(400*time.Millisecond, time.Minute)}}
	debs      string // the directory of the packages that are built
)

func TestMain(m *testing.M) {
	flag.Parse()
	harness.DefaultSignals()
	var err error
	if debs, err = os.MkdirTemp("", "lockkeeper-packages-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := zookeeper.Main(m, func() error { return goleak.Find() })
	_ = os.RemoveAll(debs)
	os.Exit(code)
}

// earlier and later are the versions that the tests install.
const earlier, later = "0.1.0", "0.2.0"

var building sync.Mutex // each uses all processors

// build builds the package of a version, once, and returns its file.
func build(t *testing.T, version string) string {
	t.Helper()
	return buildInto(t, version, debs)
}

func buildInto(t *testing.T, version, dir string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	file := filepath.Join(dir, fmt.Sprintf("lockkeeper_%s_%s.deb", version, runtime.GOARCH))
	if _, err := os.Stat(file); err == nil {
		return file
	}
	cmd := exec.CommandContext(t.Context(), "scripts/deb.sh", version, runtime.GOARCH, dir)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1790000000")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", cmd, out)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%s: %s of processor time, %s", filepath.Base(file), used.Round(time.Second), time.Since(start).Round(time.Second))
	return file
}

// unpack unpacks a package and returns the directory.
func unpack(t *testing.T, deb string) string {
	t.Helper()
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb, dir)
	return dir
}

// output is what a command prints, which must not fail.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", cmd, out)
	return string(out)
}

// golden compares a text with that of a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	text = strings.TrimRight(text, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "%s; after a change that is meant, run the test with -update", file)
}
