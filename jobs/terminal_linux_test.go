package jobs

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onTerminal starts this binary as the leader of a session with a terminal of
// its own, and returns the other end of that.
func onTerminal(t *testing.T, script string, env ...string) (keyboard *os.File, r *role) {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err, "these tests need /dev/ptmx: mount devpts")
	t.Cleanup(func() { _ = master.Close() })
	defer tty.Close()

	r = &role{cmd: exec.Command(os.Args[0]), said: &transcript{}}
	r.cmd.Env = append(roleEnvironment("terminal", script), env...)
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = tty, tty, tty
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	require.NoError(t, r.cmd.Start())
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			_, _ = r.said.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		<-reading // ends when the terminal has no user left
	})
	return master, r
}

// foreground is the process group that the keys go to.
func foreground(t *testing.T, keyboard *os.File) int {
	t.Helper()
	group, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPGRP)
	require.NoError(t, err)
	return group
}

// awaitLent waits until the command has the terminal.
func awaitLent(t *testing.T, keyboard *os.File, command int) {
	t.Helper()
	require.Eventually(t, func() bool { return foreground(t, keyboard) == command && state(command) == "S" }, patience, time.Millisecond, "the command does not get the terminal")
}

func press(t *testing.T, keyboard *os.File, keys string) {
	t.Helper()
	_, err := keyboard.WriteString(keys)
	require.NoError(t, err)
}

// endsWell waits for the end of a role that has the terminal again.
func (r *role) endsWell(t *testing.T, keyboard *os.File) {
	t.Helper()
	r.said.await(t, "ended:")
	press(t, keyboard, "back\n")
	require.Equal(t, []string{"back"}, r.said.await(t, "then"))
	require.NoError(t, r.cmd.Wait())
}

func TestCommandThatUsesTheTerminalGetsItAndGivesItBack(t *testing.T) {
	for name, script := range map[string]string{
		"it reads":   `echo ready $$; read x; echo got $x`,
		"it sets up": `stty -echo; echo ready $$; read x; echo got $x; stty echo`,
	} {
		t.Run(name, func(t *testing.T) {
			keyboard, r := onTerminal(t, script)
			awaitLent(t, keyboard, r.said.awaitPID(t, "ready"))
			press(t, keyboard, "hello\n")
			require.Equal(t, []string{"hello"}, r.said.await(t, "got"))
			require.Equal(t, []string{"<nil>"}, r.said.await(t, "ended:"))
			r.endsWell(t, keyboard)
		})
	}
}

func TestCommandThatDoesNotReadLeavesTheTerminalToOthers(t *testing.T) {
	keyboard, r := onTerminal(t, `trap 'kill -9 $!; exit 9' INT; sleep 1000 & echo ready $$; wait`)
	command := r.said.awaitPID(t, "ready")
	require.Equal(t, r.cmd.Process.Pid, foreground(t, keyboard))

	press(t, keyboard, "\x1a") // would stop the process that keeps the lock
	press(t, keyboard, "\x03")

	require.Contains(t, strings.Join(r.said.await(t, "ended:"), " "), "stopped: SIGINT was received; it failed with exit status 9")
	require.False(t, alive(command))
	r.endsWell(t, keyboard)
}

func TestCtrlCReachesTheCommandThatHasTheTerminalAlone(t *testing.T) {
	keyboard, r := onTerminal(t, `trap 'echo; echo interrupted; exit 9' INT; echo ready $$; read x`)
	awaitLent(t, keyboard, r.said.awaitPID(t, "ready"))
	press(t, keyboard, "\x03")
	r.said.await(t, "interrupted")
	require.Equal(t, `command "/bin/sh" failed with exit status 9`, strings.Join(r.said.await(t, "ended:"), " "))
	r.endsWell(t, keyboard)
}

func TestCtrlZDoesNotStopTheCommandThatHasTheTerminal(t *testing.T) {
	keyboard, r := onTerminal(t, `echo ready $$; read x; echo got $x`)
	awaitLent(t, keyboard, r.said.awaitPID(t, "ready"))
	press(t, keyboard, "\x1a")
	press(t, keyboard, "on\n")
	require.Equal(t, []string{"on"}, r.said.await(t, "got"))
	r.endsWell(t, keyboard)
}

func TestCommandInTheBackgroundGetsTheTerminalWithTheForeground(t *testing.T) {
	keyboard, shell := onTerminal(t, `echo ready $$; read x; echo got $x`, "JOBS_TEST_ROLE=shell")
	command := shell.said.awaitPID(t, "ready")
	awaitState(t, command, "T")
	require.Equal(t, shell.cmd.Process.Pid, foreground(t, keyboard))

	require.NoError(t, shell.cmd.Process.Signal(syscall.SIGUSR1))

	awaitLent(t, keyboard, command)
	press(t, keyboard, "hello\n")
	require.Equal(t, []string{"hello"}, shell.said.await(t, "got"))
	shell.endsWell(t, keyboard)
}

func TestCommandThatStandsStillForTheTerminalHearsSIGTERM(t *testing.T) {
	keyboard, shell := onTerminal(t, `trap 'exit 4' TERM; echo ready $$; read x`, "JOBS_TEST_ROLE=shell")
	awaitState(t, shell.said.awaitPID(t, "ready"), "T")

	require.NoError(t, syscall.Kill(shell.said.awaitPID(t, "exec"), syscall.SIGTERM))

	require.Contains(t, strings.Join(shell.said.await(t, "ended:"), " "), "stopped: SIGTERM was received; it failed with exit status 4")
	require.NoError(t, shell.cmd.Process.Signal(syscall.SIGUSR1)) // fg
	shell.endsWell(t, keyboard)
}
