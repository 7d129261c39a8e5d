package locks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// The child is this test binary, run again as a process that can be stopped.
const childVariable = "LOCKS_TEST_CHILD"

// beChild holds the lock and writes to a fenced file in small steps. Before
// each step it looks whether it still holds.
func beChild() error {
	args := strings.Split(os.Getenv(childVariable), "\n")
	server, root, file := args[0], args[1], fencedFile(args[2])
	c, err := recipes.NewClient(recipes.Config{Servers: []string{server}, Root: root, SessionTimeout: childSession})
	if err != nil {
		return err
	}
	l, err := c.PriorityLock("users")
	if err != nil {
		return err
	}
	ctx := context.Background()
	lost := make(chan *recipes.LostError, 1)
	g, err := l.Acquire(ctx, recipes.Request{Owner: "child", Notify: func(n recipes.Notice) {
		if n, ok := n.(recipes.Lost); ok {
			lost <- n.Err
		}
	}})
	if err != nil {
		return err
	}
	token, err := g.Token(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held", token)
	holds := func() bool { return len(lost) == 0 && time.Now().Before(g.Deadline()) }
	for range time.Tick(2 * time.Millisecond) {
		if !holds() {
			break
		}
		if err := file.write(token, "child"); err != nil {
			fmt.Println("step", err) // stopped between the look and the step
			continue
		}
		fmt.Println("step taken")
	}
	fmt.Println("late step:", file.write(token, "child, late"))
	fmt.Println("lost", (<-lost).Reason)
	return nil
}

const childSession = 2 * time.Second

// N6
func TestHolderThatWasStoppedKnowsBeforeItsNextStepAndItsTokenIsRefused(t *testing.T) {
	h := share(t)

	// given a process that holds the lock and writes to a resource
	file := fencedFile(filepath.Join(t.TempDir(), "resource"))
	child, lines := h.child(file)
	require.Regexp(t, `^held \d+$`, <-lines)
	for range 10 {
		require.Equal(t, "step taken", <-lines)
	}

	// and is stopped for longer than its session lasts
	stop(t, child.Process)
	for file.isLocked(t) { // by the one that was stopped: nobody else could ever write
		require.NoError(t, child.Process.Signal(syscall.SIGCONT))
		<-lines
		stop(t, child.Process)
	}
	successor := h.acquire("successor")
	successor.Granted()
	require.NoError(t, file.write(successor.Token(), "successor"))

	// when it runs on
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))

	// then it takes no further step, at most the one that it was stopped in, which is refused
	var said []string
	for line := range lines {
		h.History.Add("child", "%s", line)
		if line != "step taken" { // said before it was stopped, or the next check fails
			said = append(said, line)
		}
	}
	require.NoError(t, child.Wait())
	if len(said) > 0 && said[0] == "step stale token" {
		said = said[1:]
	}
	require.Equal(t, []string{"late step: stale token", "lost session"}, said)

	// and nothing of it came after the successor
	entries := file.entries(t)
	require.Equal(t, "successor", entries[len(entries)-1].who)
	inTurns(t, entries)
	require.NoError(t, file.write(successor.Token(), "successor"))
}

// stop returns when the process has stopped.
func stop(t testing.TB, p *os.Process) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		require.NoError(t, err)
		require.True(t, status.Stopped(), "process %d has ended: status %#x", p.Pid, status)
		return
	}
}

// child starts this binary as a holder, and returns what it says.
func (f *fixture) child(file fencedFile) (*exec.Cmd, <-chan string) {
	f.Helper()
	self, err := os.Executable()
	require.NoError(f, err)
	cmd := exec.CommandContext(f.Context(), self)
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{f.Server.Addr(), f.Root, string(file)}, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, cmd.Start())
	lines := make(chan string, 1<<16)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	f.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, lines
}
