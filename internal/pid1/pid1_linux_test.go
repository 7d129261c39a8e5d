package pid1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// TestMain lets tests start this binary as process 1 of a container, which starts it
// once more.
func TestMain(m *testing.M) {
	role := os.Getenv("PID1_TEST_ROLE")
	if role == "" {
		// Under nohup, or in the background of a script, this program ignores some signals, and so would what it starts. What is
		// caught is not ignored there.
		signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT)
		os.Exit(m.Run())
	}
	if os.Getpid() == 1 {
		if err := ownProc(); err != nil {
			fmt.Println("error:", err)
			os.Exit(100)
		}
	}
	code, ended, err := Run(os.Args)
	if err != nil {
		fmt.Println("error:", err)
	}
	if ended {
		os.Exit(code)
	}
	os.Exit(roles[role]())
}

// ownProc shows the processes of this namespace alone.
func ownProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", 0, "")
}

var roles = map[string]func() int{
	"orphans": playOrphans,
	"killed":  func() int { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
	"seven":   func() int { return 7 },
	"signals": playSignals,
	"stopped": playStopped,
	"keys":    playKeys,
	"waits":   playWaits,
}

// playOrphans leaves orphans, as jobs do, and waits until process 1 has reaped them.
func playOrphans() int {
	fmt.Println("pid", os.Getpid(), "parent", os.Getppid())
	out, err := exec.Command("/bin/sh", "-c", `for i in 1 2 3 4 5 6 7 8; do (sh -c 'exit 3' & sh -c 'kill -9 $$' & setsid true &) ; done; echo left`).CombinedOutput()
	if err != nil || string(out) != "left\n" {
		fmt.Println("error:", err, string(out))
		return 1
	}
	for begin := time.Now(); time.Since(begin) < patience; <-time.After(time.Millisecond) {
		if len(processes()) == 2 { // process 1 and this one
			fmt.Println("all are reaped")
			return 0
		}
	}
	fmt.Println("left:", processes())
	return 1
}

// processes are the lines of /proc/PID/stat.
func processes() (all []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if stat, err := os.ReadFile("/proc/" + e.Name() + "/stat"); err == nil {
			all = append(all, string(stat))
		}
	}
	return all
}

func playSignals() int {
	received := make(chan os.Signal, 64)
	signal.Notify(received)
	fmt.Println("ready")
	for sig := range received {
		switch sig {
		case unix.SIGURG, unix.SIGCHLD: // of the runtime, and of no child
		case unix.SIGTERM:
			fmt.Println("got", unix.SignalName(sig.(syscall.Signal)))
			return 143
		default:
			fmt.Println("got", unix.SignalName(sig.(syscall.Signal)))
		}
	}
	return 1
}

func playStopped() int {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	fmt.Println("ready")
	<-continued
	return 0
}

// playKeys says which signals keys make, each once.
func playKeys() int {
	received := make(chan os.Signal, 8)
	signal.Notify(received, unix.SIGINT, unix.SIGUSR1)
	for begin := time.Now(); ; <-time.After(time.Millisecond) {
		if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
			break
		}
		if time.Since(begin) > patience {
			fmt.Println("error: no terminal")
			return 1
		}
	}
	fmt.Println("ready")
	for n := 0; ; {
		switch <-received {
		case unix.SIGINT:
			n++
			fmt.Println("interrupted")
		case unix.SIGUSR1: // passed on after all that came before
			return n
		}
	}
}

// playWaits has process 1 reap orphans while os/exec waits for children of its own.
func playWaits() int {
	for i := range 50 {
		err := exec.Command("/bin/sh", "-c", fmt.Sprintf("(true &); exit %d", i)).Run()
		exit, failed := errors.AsType[*exec.ExitError](err)
		if i == 0 && err != nil || i > 0 && (!failed || exit.ExitCode() != i) {
			fmt.Println("error:", i, err)
			return 1
		}
	}
	return 0
}

// A container is this binary as process 1 of a namespace.
type container struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
}

func (c *container) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(p)
}

func (c *container) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

func (c *container) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(c.String(), text) }, patience, time.Millisecond, "waiting for %q", text)
}

func (c *container) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(sig))
}

func (c *container) exitCode(t *testing.T) int {
	t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer stuck.Stop()
	_ = c.cmd.Wait()
	require.True(t, c.cmd.ProcessState.Exited(), "%s, after it said:\n%s", c.cmd.ProcessState, c)
	return c.cmd.ProcessState.ExitCode()
}

// start needs root, or a kernel that lets users make namespaces, as Linux distributions do
// by default.
func start(t *testing.T, role string, options ...func(*exec.Cmd)) *container {
	t.Helper()
	c := &container{cmd: exec.Command("/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), "PID1_TEST_ROLE="+role, "GORACE=atexit_sleep_ms=0")
	c.cmd.Stdout, c.cmd.Stderr = c, c
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		c.cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	for _, option := range options {
		option(c.cmd)
	}
	err := c.cmd.Start()
	if errors.Is(err, unix.EPERM) {
		t.Skip("process 1 needs a PID namespace, which cannot be made here: give the container the capability SYS_ADMIN")
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // and with it all of the namespace
		_ = c.cmd.Wait()
	})
	return c
}

func TestProcessOneReapsOrphans(t *testing.T) {
	c := start(t, "orphans")
	require.Equal(t, 0, c.exitCode(t), c.String())
	require.Contains(t, c.String(), "parent 1\n", "the program itself is another process")
	require.Contains(t, c.String(), "all are reaped")
}

func TestProcessOneEndsWithTheStatusOfItsChild(t *testing.T) {
	for role, want := range map[string]int{"seven": 7, "killed": 128 + 9} {
		c := start(t, role)
		require.Equal(t, want, c.exitCode(t), "%s: %s", role, c)
	}
}

func TestProcessOnePassesSignalsOn(t *testing.T) {
	c := start(t, "signals")
	c.await(t, "ready")
	for _, sig := range []syscall.Signal{
		unix.SIGCONT, // before those that one follows
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGTSTP, unix.SIGTERM,
	} {
		c.signal(t, sig)
		c.await(t, "got "+unix.SignalName(sig)+"\n")
	}
	require.Equal(t, 143, c.exitCode(t), c.String())
}

func TestSignalsThatThisProgramWasStartedToIgnoreAreNotPassedOn(t *testing.T) {
	c := start(t, "signals", func(cmd *exec.Cmd) {
		// A shell that ignores a signal has what it executes ignore it.
		cmd.Args = []string{"sh", "-c", `trap '' HUP; exec "$0"`, cmd.Path}
		cmd.Path = "/bin/sh"
		cmd.Args[3] = testBinary(t)
	})
	c.await(t, "ready")
	c.signal(t, unix.SIGHUP)
	c.signal(t, unix.SIGTERM)
	require.Equal(t, 143, c.exitCode(t), c.String())
	require.NotContains(t, c.String(), "SIGHUP")
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func TestProcessOnePassesAStopOnAndContinues(t *testing.T) {
	c := start(t, "stopped")
	c.await(t, "ready")
	child := childOf(t, c.cmd.Process.Pid)
	c.signal(t, unix.SIGTSTP)
	require.Eventually(t, func() bool { return state(child) == "T" }, patience, time.Millisecond, "the child is not stopped: %s", state(child))
	require.Eventually(t, func() bool { return state(c.cmd.Process.Pid) == "S" }, patience, time.Millisecond, "process 1 does not go on reaping")
	c.signal(t, unix.SIGCONT)
	require.Equal(t, 0, c.exitCode(t), c.String())
}

// A key or an operator may have stopped it. It has to act on the signal that ends it all the same.
func TestStoppedChildOfProcessOneEnds(t *testing.T) {
	c := start(t, "signals")
	c.await(t, "ready")
	child := childOf(t, c.cmd.Process.Pid)
	require.NoError(t, unix.Kill(child, unix.SIGSTOP))
	require.Eventually(t, func() bool { return state(child) == "T" }, patience, time.Millisecond, "the child is not stopped: %s", state(child))
	c.signal(t, unix.SIGTERM)
	require.Equal(t, 143, c.exitCode(t), c.String())
}

func childOf(t *testing.T, pid int) int {
	t.Helper()
	for _, stat := range processes() {
		name, rest, _ := strings.Cut(stat, " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")"):])
		if fields[2] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(name)
			require.NoError(t, err)
			return child
		}
	}
	require.FailNow(t, "it has no child")
	return 0
}

func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))[1]
}

func TestKeysOfTheTerminalReachTheChildOnce(t *testing.T) {
	keyboard, tty, err := pty.Open()
	require.NoError(t, err)
	defer keyboard.Close()
	c := start(t, "keys", func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	})
	require.NoError(t, tty.Close())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(c, keyboard) // until no process has the terminal
	}()
	c.await(t, "ready")
	_, err = keyboard.WriteString("\x03")
	require.NoError(t, err)
	c.await(t, "interrupted")
	c.signal(t, unix.SIGUSR1)
	require.Equal(t, 1, c.exitCode(t), c.String())
	<-over
}

func TestWaitingForCommandsIsNotDisturbed(t *testing.T) {
	c := start(t, "waits")
	require.Equal(t, 0, c.exitCode(t), c.String())
}

func TestAnyOtherProcessGoesOn(t *testing.T) {
	code, ended, err := Run([]string{"none"})
	require.NoError(t, err)
	require.False(t, ended)
	require.Zero(t, code)
}
