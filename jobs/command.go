package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// DefaultCleanupTimeout is what a Command without a CleanupTimeout gets.
const DefaultCleanupTimeout = 10 * time.Second

// A Command is a program as Work. It runs in a process group of its own, with
// the lock that the context carries in its environment: LOCKKEEPER_SCOPE,
// LOCKKEEPER_TOKEN (decimal; give it to whatever the command writes to),
// LOCKKEEPER_PRIORITY, LOCKKEEPER_MODE, LOCKKEEPER_LEASE_DEADLINE (RFC 3339)
// and TRACEPARENT. Of several locks these are the first one's.
// LOCKKEEPER_TOKENS has the token of each scope, of one as of several: a JSON
// object whose values are decimal strings, such as {"cluster/orders":"4711"}.
// Of the run there are LOCKKEEPER_JOB, LOCKKEEPER_RUN (the attempt),
// LOCKKEEPER_SCHEDULED (RFC 3339; of runs that a schedule has started) and, in
// a cleanup hook, LOCKKEEPER_CAUSE: why the work was interrupted (CauseWord).
//
// A Command has no state: it may run several times at once.
//
// Limits. A process that leaves the group of its command (setsid, the jobs of
// an interactive shell) is on its own: Run neither waits for it nor kills
// it. A process of another user, such as one behind sudo, is waited for but
// may refuse the signals. On Linux the group is followed through /proc;
// elsewhere a group that only has zombies left counts as running until they
// are reaped.
type Command struct {
	// AddEnv is added to Env, as "KEY=value"; of two with one name it wins.
	AddEnv []string

	// Argv is the program and its arguments. It is started directly: for a
	// shell, write "sh", "-c" and the script.
	Argv []string

	// CleanupTimeout is how long the command has from SIGTERM, or from a
	// signal that was passed on, to SIGKILL, where the cause does not say it:
	// a preemption and the end of a lease bring their own grace. Negative: it
	// is killed at once. Defaults to 0: DefaultCleanupTimeout.
	CleanupTimeout time.Duration

	// Dir is where the command runs. Defaults to the current directory.
	Dir string

	// Env is the environment, as "KEY=value", without what the lock adds. What
	// it does not say of HOME, LOGNAME and USER is that of User, if there is one.
	// Defaults to the environment of this process; for another User to LANG,
	// LANGUAGE, LC_*, PATH, TERM and TZ of it: what else is there may be secret.
	Env []string

	// MaxOutput bounds, in bytes, how much of the output Job.NewOutput keeps:
	// the end of it. Defaults to 0: DefaultTail.
	MaxOutput int

	// Signals are passed on to the group while the command runs, for example
	// what signal.Notify delivers. SIGINT, SIGTERM, SIGHUP and SIGQUIT start
	// its cleanup timeout, and another one of them, a second later or more, ends
	// it with SIGKILL. SIGCHLD, SIGPIPE and SIGURG, which are about this
	// process, are not passed on, nor is SIGTSTP: ask for it all the same, so
	// that Ctrl-Z does not stop the process that keeps the lock. Ask for SIGCONT,
	// too: with it a shell's fg brings the command to the terminal.
	// Defaults to nil: none.
	Signals <-chan os.Signal

	// Stdin is inherited. A command that has one may use the terminal: as soon
	// as it wants to, it gets the foreground if this process has it, and keeps
	// it to its end. From then on the keys that interrupt reach the command
	// alone, and Ctrl-Z does nothing, because a lock must not be held by a
	// command that stands still. Defaults to no input, and no terminal.
	Stdin *os.File

	// Stdout and Stderr take the output. An *os.File is inherited. Anything
	// else gets it through a pipe, must not block, and has all that the group
	// wrote when Run returns; the two may be the same. Default to those of the
	// Run.
	Stdout, Stderr io.Writer

	// User is whom the command runs as: a name or a number, and behind a colon
	// its group, if that should not be the user's own: "backup", "backup:staff",
	// "1001:1001". It has the other groups of the user as well. The program,
	// which is found with the PATH of this process, and Dir must be open to that
	// user. This process has to be root, or to have the capabilities SETUID and
	// SETGID; it needs KILL, too, to stop the command. Defaults to the user of
	// this process.
	User string
}

// Validate returns everything that is wrong with c, joined (errors.Join); each
// problem is a *lockguard.RequestError.
func (c *Command) Validate() error {
	if c == nil {
		return &lockguard.RequestError{Field: "exec", Reason: "is nil; give the command"}
	}
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &lockguard.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}

	if len(c.Argv) == 0 || c.Argv[0] == "" {
		refuse("exec", `names no program; write it and its arguments, for example ["tar", "-cf", "out.tar", "."]`)
	}
	for i, arg := range c.Argv {
		if strings.ContainsRune(arg, 0) {
			refuse(fmt.Sprintf("exec[%d]", i), "%q contains a zero byte; write it without", arg)
		}
	}
	for i, entry := range slices.Concat(c.Env, c.AddEnv) {
		switch {
		case strings.ContainsRune(entry, 0):
			refuse(fmt.Sprintf("env[%d]", i), "%q contains a zero byte; write it without", entry)
		case strings.IndexByte(entry, '=') < 1:
			refuse(fmt.Sprintf("env[%d]", i), "%q is no KEY=value; write both", entry)
		}
	}
	if c.User != "" {
		if _, err := identify(c.User); err != nil {
			refuse("user", "%v", err)
		}
	}
	if c.MaxOutput < 0 {
		refuse("output", "%d is negative; write how many bytes to keep, or leave it out", c.MaxOutput)
	}
	return errors.Join(problems...)
}

// Run starts the command and returns when no process of its group is left,
// also when the command itself ended long before.
//
// When ctx ends, the group gets SIGTERM, and SIGCONT for those that are stopped,
// and SIGKILL at the end of its grace. When the lock is lost, it gets SIGKILL at once. The group is
// killed as well when this process dies, however it dies: Run starts a guardian,
// a small shell process that outlives it.
//
// Run returns nil for exit status 0; *ExitError if the command failed by
// itself; *StoppedError if it was stopped, whatever its exit status; and
// *StartError if it could not be started.
func (c *Command) Run(ctx context.Context, run Run) error {
	if h, ok := lockguard.FromContext(ctx); ok {
		return c.run(ctx, run, h)
	}
	return c.run(ctx, run, nil)
}

// run runs c under h, which may be nil.
func (c *Command) run(ctx context.Context, run Run, h lockguard.WorkHold) error {
	if err := c.Validate(); err != nil {
		return err
	}
	name := c.Argv[0]
	signals := lockguard.NewStopSignals(ctx, h, run.Lost)
	if cause := signals.Cause(); cause != nil {
		return &StoppedError{Command: name, Cause: cause}
	}

	var as identity
	if c.User != "" {
		var err error
		if as, err = identify(c.User); err != nil {
			return &StartError{Command: name, Err: err}
		}
	}
	cmd := exec.Command(name, c.Argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(c.environ(as), environment(ctx, run, h)...)
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	stdout, stderr := c.output(run)
	out, err := newOutput(cmd, stdout, stderr)
	if err != nil {
		return &StartError{Command: name, Err: err}
	}
	defer out.drain()
	if err := as.own(out.theirs); err != nil {
		return &StartError{Command: name, Err: fmt.Errorf("its output cannot be given to user %q: %w", c.User, err)}
	}

	guard, err := newGuardian(shell)
	if err != nil {
		return &StartError{Command: name, Err: err}
	}
	defer guard.dismiss()
	g, err := startGroup(cmd, as.credential, guard)
	if err != nil {
		return &StartError{Command: name, Err: c.whyNot(err)}
	}
	out.started()

	s := &supervisor{command: c, signals: signals, group: g, log: run.logger().With("command", name, "pid", g.id)}
	if g.unguarded != nil {
		s.stop(g.unguarded, time.Now())
	}
	if c.Stdin != nil {
		s.terminal = &terminal{}
		defer s.terminal.takeBack()
		if !toldOfStops {
			s.handTerminal()
		}
	}
	s.supervise()
	s.flush()
	return s.outcome()
}

// whyNot blames the user or the directory if that is what is wrong: the
// kernel's error does not say.
func (c *Command) whyNot(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && c.User != "" && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("user %q may not run it, or may not be in its directory: %w", c.User, e.Err)
	}
	if c.Dir == "" {
		return err
	}
	dir, failure := os.Stat(c.Dir)
	if e, ok := errors.AsType[*fs.PathError](failure); ok {
		return &fs.PathError{Op: "chdir", Path: c.Dir, Err: e.Err}
	}
	if failure == nil && !dir.IsDir() {
		return &fs.PathError{Op: "chdir", Path: c.Dir, Err: syscall.ENOTDIR}
	}
	return err
}

// environ returns the environment without what run and lock add.
func (c *Command) environ(as identity) []string {
	if c.Env == nil {
		return slices.Concat(as.cleared(os.Environ()), as.environ(), c.AddEnv)
	}
	return slices.Concat(as.environ(), c.Env, c.AddEnv)
}

// OutputLimit returns MaxOutput: see Job.NewOutput.
func (c *Command) OutputLimit() int { return c.MaxOutput }

func (c *Command) output(run Run) (stdout, stderr io.Writer) {
	stdout, stderr = c.Stdout, c.Stderr
	if stdout == nil {
		stdout = run.Stdout
	}
	if stderr == nil {
		stderr = run.Stderr
	}
	return stdout, stderr
}

// cleanup is the grace where no cause says it.
func (c *Command) cleanup() time.Duration {
	switch {
	case c.CleanupTimeout < 0:
		return 0
	case c.CleanupTimeout == 0:
		return DefaultCleanupTimeout
	}
	return c.CleanupTimeout
}
