package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Build builds the program lockkeeper in a directory and returns its path. Like all that tests build, it has the race
// detector if they have it: nothing is compiled twice.
func Build(dir string) (path string, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/lockkeeper/lockkeeper").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	path = filepath.Join(dir, "lockkeeper")
	build := exec.Command("go", append(BuildArgs(path), "./cmd/lockkeeper")...)
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
}

// BuildArgs are the arguments of a go command that builds a program like the tests.
func BuildArgs(path string) []string {
	args := []string{"build", "-ldflags=-s", "-o", path} // no debugger looks at it: a third less to link
	if info, ok := debug.ReadBuildInfo(); ok &&
		slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	return args
}

// WithProgram builds the program, runs the tests with its path, and returns the exit code for os.Exit.
func WithProgram(test func(path string) int) int {
	dir, err := os.MkdirTemp("", "lockkeeper-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := Build(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return test(path)
}

// Output is what processes have written so far.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Line returns the first line that has all parts, once it has its end.
func (o *Output) Line(parts ...string) (line string, there bool) {
	for line := range strings.Lines(o.String()) {
		lacks := func(part string) bool { return !strings.Contains(line, part) }
		if strings.HasSuffix(line, "\n") && !slices.ContainsFunc(parts, lacks) {
			return line, true
		}
	}
	return "", false
}

// Await waits for a line that has all parts.
func (o *Output) Await(t testing.TB, parts ...string) (line string) {
	t.Helper()
	Eventually(t, func() (there bool) { line, there = o.Line(parts...); return there }, "no line has %q", parts)
	return line
}

// Daemon is a process of which the output is kept.
type Daemon struct {
	*Output
	Cmd *exec.Cmd

	stop func()
}

// StartDaemon starts a process. It is stopped at the end of the test, and its output is printed when the test fails.
func StartDaemon(t testing.TB, cmd *exec.Cmd) *Daemon {
	t.Helper()
	d := &Daemon{Output: &Output{}, Cmd: cmd}
	cmd.Stdout, cmd.Stderr = d.Output, d.Output
	require.NoError(t, cmd.Start())
	d.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(Patience, func() {
			t.Errorf("%s does not end", cmd)
			_ = cmd.Process.Kill()
		})
		defer killer.Stop()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			t.Logf("output of %s:\n%.20000s", cmd, d.Output)
		}
	})
	return d
}

// Stop asks the process to end, and waits until it has.
func (d *Daemon) Stop() { d.stop() }

// Unanswered returns whether a command has ended because ZooKeeper was too slow for it, as its exit code and what it
// wrote tell: on a busy machine somebody runs it once more.
func Unanswered(code int, text string) bool {
	return code == 75 && strings.Contains(text, "check that the servers run and can be reached from here")
}
