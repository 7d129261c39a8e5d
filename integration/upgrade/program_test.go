package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// earlier is the commit whose program has to work together with today's.
const earlier = "9813b63"

const repository = "../.."

// hasHistory reports whether the earlier commit is at hand: a shallow clone, or an archive, does not have it.
func hasHistory(t *testing.T) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "git", "-C", repository, "cat-file", "-e", earlier+"^{commit}").Run() == nil
}

// buildToday builds today's program.
func buildToday(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "lockkeeper")
	compile(t, repository, program)
	return program
}

// buildEarlier builds the program of the earlier commit, once: it stays where `make clean` removes it.
func buildEarlier(t *testing.T) (program string) {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join(repository, "bin"))
	require.NoError(t, err)
	program = filepath.Join(bin, "lockkeeper-"+earlier)
	if _, err := os.Stat(program); err == nil {
		return program
	}
	dir := t.TempDir()
	archive, source := filepath.Join(dir, "source.tar"), filepath.Join(dir, "source")
	require.NoError(t, os.Mkdir(source, 0o755))
	output(t, repository, "git", "archive", "--output", archive, earlier)
	output(t, source, "tar", "-xf", archive)
	require.NoError(t, os.MkdirAll(bin, 0o755))
	fresh := fmt.Sprintf("%s.%d", program, os.Getpid()) // another run may build it, too
	compile(t, source, fresh)
	require.NoError(t, os.Rename(fresh, program))
	return program
}

// compile has the race detector, like the tests: then what others have compiled for them is used.
func compile(t *testing.T, source, program string) {
	t.Helper()
	output(t, source, "go", "build", "-race", "-ldflags=-s", "-o", program, "./cmd/lockkeeper")
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", cmd, out)
	return string(out)
}

// site is where processes run: a directory with the configuration, and a ZooKeeper.
type site struct {
	t   *testing.T
	dir string
	zk  string
}

// process is a program that goes on.
type process struct {
	s    *site
	name string
	cmd  *exec.Cmd
	done chan struct{}

	stdout, stderr harness.Output
}

func (p *process) output() string { return p.stderr.String() + p.stdout.String() }

// start starts a program. What it prints is printed when the test fails; at the end of the test it is killed.
func (s *site) start(name, program string, args ...string) *process {
	s.t.Helper()
	p := &process{s: s, name: name, cmd: exec.CommandContext(s.t.Context(), program, args...), done: make(chan struct{})}
	p.cmd.Dir = s.dir
	p.cmd.Env = append(os.Environ(), "LOCKKEEPER_ZK="+s.zk, "LOCKKEEPER_ZK_DIGEST_FILE=digest", "SITE="+name)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(s.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if s.t.Failed() {
			s.t.Logf("%s printed:\n%s", name, p.output())
		}
	})
	return p
}

// exits waits for the end, requires an exit code, and returns what was printed on stdout.
func (p *process) exits(code int) string {
	p.s.t.Helper()
	harness.Receive(p.s.t, p.done, "%s has not ended: %s", p.name, p.output())
	require.Equal(p.s.t, code, p.cmd.ProcessState.ExitCode(), "%s: %s", p.name, p.output())
	return p.stdout.String()
}

func (p *process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// run runs a program to its end, which has to be with exit code 0.
func (s *site) run(program string, args ...string) string {
	s.t.Helper()
	return s.start(strings.Join(args, " "), program, args...).exits(0)
}

// lines waits until a file has lines for which enough is true, and returns them.
func (s *site) lines(file string, enough func(lines []string) bool, what string) (lines []string) {
	s.t.Helper()
	harness.Eventually(s.t, func() bool {
		text, err := os.ReadFile(filepath.Join(s.dir, file))
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return err == nil && enough(lines)
	}, "%s: %s", file, what)
	return lines
}

func (s *site) has(file, line string) {
	s.t.Helper()
	s.lines(file, func(lines []string) bool { return slices.Contains(lines, line) }, fmt.Sprintf("the line %q", line))
}
