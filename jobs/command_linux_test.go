package jobs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestCommandThatSucceedsReturnsNil(t *testing.T) {
	r := run(t, never, `echo hello; echo oops >&2`)
	require.NoError(t, r.wait(t))
	require.Equal(t, "hello\noops\n", r.said.String())
}

func TestCommandsOwnEndIsReturned(t *testing.T) {
	for script, want := range map[string]struct {
		code int
		says string
	}{
		"exit 7":          {7, `command "/bin/sh" failed with exit status 7`},
		"kill -s USR1 $$": {128 + int(syscall.SIGUSR1), `command "/bin/sh" was ended by SIGUSR1`},
	} {
		err := run(t, never, script).wait(t)
		var exit *ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, want.code, exit.ExitCode())
		require.EqualError(t, err, want.says)
	}
}

func TestCommandThatCannotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("no program"), 0o644))

	for name, c := range map[string]struct {
		command Command
		is      error
		code    int
		says    string
	}{
		"not in PATH":      {Command{Argv: []string{"no-such-program"}}, exec.ErrNotFound, 127, `command "no-such-program" could not be started: executable file not found in $PATH`},
		"no such file":     {Command{Argv: []string{filepath.Join(dir, "none")}}, fs.ErrNotExist, 127, "no such file"},
		"not executable":   {Command{Argv: []string{plain}}, fs.ErrPermission, 126, "permission denied"},
		"no such dir":      {Command{Argv: []string{"true"}, Dir: filepath.Join(dir, "none")}, fs.ErrNotExist, 127, "could not be started: chdir"},
		"dir is a file":    {Command{Argv: []string{"true"}, Dir: plain}, syscall.ENOTDIR, 126, "chdir"},
		"argument list...": {Command{Argv: []string{"true", strings.Repeat("x", 1<<20)}}, syscall.E2BIG, 126, "argument list too long"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.command.Run(t.Context(), Run{Stdout: io.Discard})
			var start *StartError
			require.ErrorAs(t, err, &start)
			require.ErrorIs(t, err, c.is)
			require.Equal(t, c.code, start.ExitCode())
			require.ErrorContains(t, err, c.says)
		})
	}
	noChildren(t)
}

func TestWithoutAShellTheErrorNamesTheGuardian(t *testing.T) {
	_, err := newGuardian("/no/such/sh")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "needs a guardian")
	require.ErrorContains(t, err, "the shell /no/such/sh")
}

func TestCommandSeesItsRunAndItsLockInTheEnvironment(t *testing.T) {
	h := newFakeHold(t)
	h.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	h.info = lockguard.Info{
		Requirement:   lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{Priority: 40}},
		Token:         4294967298,
		LeaseDeadline: time.Date(2026, 11, 21, 14, 30, 0, 123, time.FixedZone("", 3600)),
	}
	h.tokens = map[string]lockguard.Token{"cluster/orders": 4294967298, `a "quoted" <scope>`: 9223372036854775807}
	r := runAs(t, Run{Attempt: "7f3a", Cause: &lockguard.PreemptedError{}, Job: "compact", Scheduled: tick}, h, never, `env | grep -E '^(LOCKKEEPER|TRACE|MINE)' | sort`, func(c *Command) {
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "MINE=kept", "LOCKKEEPER_TOKEN=1", "TRACEPARENT=old"}
	})
	require.NoError(t, r.wait(t))
	require.Equal(t, `LOCKKEEPER_CAUSE=preempted
LOCKKEEPER_JOB=compact
LOCKKEEPER_LEASE_DEADLINE=2026-11-21T14:30:00+01:00
LOCKKEEPER_MODE=exclusive
LOCKKEEPER_PRIORITY=40
LOCKKEEPER_RUN=7f3a
LOCKKEEPER_SCHEDULED=2026-03-08T07:30:00Z
LOCKKEEPER_SCOPE=cluster/orders
LOCKKEEPER_TOKEN=4294967298
LOCKKEEPER_TOKENS={"a \"quoted\" \u003cscope\u003e":"9223372036854775807","cluster/orders":"4294967298"}
MINE=kept
TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
`, r.said.String())
}

func TestCommandWithoutALockInheritsTheEnvironment(t *testing.T) {
	t.Setenv("MINE", "inherited")
	tail := NewTail(0)
	c := &Command{Argv: []string{"sh", "-c", `echo $MINE ${LOCKKEEPER_SCOPE-none}`}, Stdout: tail}
	require.NoError(t, c.Run(t.Context(), Run{}))
	require.Equal(t, "inherited none\n", tail.String())
}

func TestCommandRunsInItsDirectoryAndReadsItsInput(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "input")
	require.NoError(t, os.WriteFile(input, []byte("from the file\n"), 0o600))
	stdin, err := os.Open(input)
	require.NoError(t, err)
	defer stdin.Close()

	r := run(t, never, `cat; ls`, func(c *Command) { c.Dir, c.Stdin = dir, stdin })
	require.NoError(t, r.wait(t))
	require.Equal(t, "from the file\ninput\n", r.said.String())
}

func TestCommandIsNotStartedWhenItWouldBeToldToGo(t *testing.T) {
	gone := errors.New("gone")
	for name, end := range map[string]func(h *fakeHold) error{
		"context over": func(h *fakeHold) error {
			ended, end := context.WithCancelCause(context.Background())
			end(gone)
			h.hookCtx = ended
			h.end(gone)
			return gone
		},
		"lock lost": func(h *fakeHold) error {
			lost := &lockguard.LostError{Scope: "s"}
			h.lose(lost)
			return lost
		},
		"lock at risk": func(h *fakeHold) error { close(h.atRisk); return lockguard.ErrAtRisk },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHold(t)
			cause := end(h)
			r := runAs(t, Run{}, h, never, `echo started`)
			require.Equal(t, &StoppedError{Command: "/bin/sh", Cause: cause}, r.stopped(t))
			require.Empty(t, r.said.String())
		})
	}
}

func TestOneCommandRunsSeveralTimesAtOnce(t *testing.T) {
	c := &Command{Argv: []string{"/bin/sh", "-c", "echo $$"}}
	outputs := make([]*Tail, 8)
	var all sync.WaitGroup
	for i := range outputs {
		outputs[i] = NewTail(0)
		all.Go(func() { require.NoError(t, c.Run(t.Context(), Run{Stdout: outputs[i]})) })
	}
	all.Wait()
	seen := map[string]bool{}
	for _, o := range outputs {
		seen[o.String()] = true
	}
	require.Len(t, seen, len(outputs))
}

func TestCommandValidateTellsAllAtOnce(t *testing.T) {
	require.NoError(t, (&Command{Argv: []string{"true"}}).Validate())

	err := (&Command{Argv: []string{"", "a\x00b"}, Env: []string{"A=b", "C", "=d", "E=\x00"}}).Validate()
	require.EqualError(t, err, strings.Join([]string{
		`lockkeeper: exec: names no program; write it and its arguments, for example ["tar", "-cf", "out.tar", "."]`,
		`lockkeeper: exec[1]: "a\x00b" contains a zero byte; write it without`,
		`lockkeeper: env[1]: "C" is no KEY=value; write both`,
		`lockkeeper: env[2]: "=d" is no KEY=value; write both`,
		`lockkeeper: env[3]: "E=\x00" contains a zero byte; write it without`,
	}, "\n"))
	require.Equal(t, err, (&Command{Argv: []string{"", "a\x00b"}, Env: []string{"A=b", "C", "=d", "E=\x00"}}).Run(context.Background(), Run{}))
}

func TestManyRunsLeaveNoDescriptorAndNoProcess(t *testing.T) {
	// Without the garbage collector, which closes what was forgotten.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	once := func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		script := "echo hello"
		switch i % 3 {
		case 1:
			script = "sleep 0.001 & exit 3" // somebody outlives the command
		case 2:
			script = "echo hello; exec sleep 1000"
		}
		first := &onWrite{then: cancel}
		_ = (&Command{Argv: []string{"/bin/sh", "-c", script}, Stdout: first, Stderr: NewTail(0)}).Run(ctx, Run{})
		_ = (&Command{Argv: []string{"no-such-program"}, Stdout: first}).Run(t.Context(), Run{})
	}
	for i := range 6 {
		once(i) // what is opened once and kept
	}
	before := descriptors()
	runs := 200
	if testing.Short() {
		runs = 45
	}
	for i := range runs {
		once(i)
	}
	require.LessOrEqual(t, descriptors(), before)
	noChildren(t)
}

type onWrite struct{ then func() }

func (o *onWrite) Write(p []byte) (int, error) {
	o.then()
	return len(p), nil
}
