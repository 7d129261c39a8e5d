package groups

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The child is this test binary, run again as a process that can be killed.
const childVariable = "GROUPS_TEST_CHILD"

const childSession = 2 * time.Second

// childHandler says what it holds.
type childHandler struct{}

func (childHandler) OnLocked(_ context.Context, grant group.LockGrant) {
	fmt.Println("locked", grant.Lock)
}
func (childHandler) OnReleased(_ context.Context, lock string) { fmt.Println("released", lock) }
func (childHandler) OnDropped(context.Context, string)         {}

// beChild takes part in the group until it is killed.
func beChild() error {
	args := strings.Split(os.Getenv(childVariable), "\n")
	c, err := lock.NewClient(lock.Config{Servers: []string{args[0]}, Root: args[1], SessionTimeout: childSession})
	if err != nil {
		return err
	}
	g, err := group.New(c.Client, spec(12))
	if err != nil {
		return err
	}
	if _, err := g.Join(context.Background(), args[2], childHandler{}); err != nil {
		return err
	}
	select {}
}

// child starts one, which is killed at the end. Each line it prints is sent.
func (f *fixture) child(name string) (*exec.Cmd, <-chan string) {
	f.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{f.Server.Addr(), f.Root, name}, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, cmd.Start())
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			f.History.Add(name, "%s", s.Text())
			lines <- s.Text()
		}
	}()
	f.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, lines
}

func TestProcessThatIsKilledLosesItsLocksToTheOthers(t *testing.T) {
	t.Parallel()
	for _, controls := range []bool{true, false} {
		t.Run(fmt.Sprintf("it is the controller: %t", controls), func(t *testing.T) {
			t.Parallel()
			f := share(t)
			s := spec(12)

			// given a process that shares 12 locks with two participants
			var process *exec.Cmd
			if controls {
				var lines <-chan string
				process, lines = f.child("child")
				harness.Receive(t, lines, "the child has no lock")
			}
			one, two := f.join(s, "node1"), f.join(s, "node2")
			if !controls {
				process, _ = f.child("child")
			}
			harness.Eventually(t, func() bool {
				return len(one.locks()) == 4 && len(two.locks()) == 4 && f.referee.count() == 8
			}, "the locks are not spread")
			before, gave := f.state(), given(one, two)

			// when it is killed
			require.NoError(t, process.Process.Kill())
			f.share(6, one, two)

			// then its locks have moved, and no others
			require.Equal(t, gave, given(one, two))
			require.Equal(t, 4, f.state().Moved)
			require.Equal(t, before.MovedTotal+4, f.state().MovedTotal)
		})
	}
}
