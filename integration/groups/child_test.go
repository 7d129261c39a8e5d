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

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The child is this test binary, run again as a process that can be killed.
const childVariable = "GROUPS_TEST_CHILD"

const childSession = 2 * time.Second

// childHandler says what it holds.
type childHandler struct{}

func (childHandler) OnLocked(_ context.Context, grant recipes.LockGrant) {
	fmt.Println("locked", grant.Lock)
}
func (childHandler) OnReleased(_ context.Context, lock string) { fmt.Println("released", lock) }
func (childHandler) OnDropped(context.Context, string)         {}

// beChild takes part in the group until it is killed.
func beChild() error {
	args := strings.Split(os.Getenv(childVariable), "\n")
	c, err := recipes.NewClient(recipes.Config{Servers: []string{args[0]}, Root: args[1], SessionTimeout: childSession})
	if err != nil {
		return err
	}
	g, err := c.Group(spec(12))
	if err != nil {
		return err
	}
	if _, err := g.Join(context.Background(), args[2], childHandler{}); err != nil {
		return err
	}
	select {}
}

// child starts one, which is killed at the end. Each line it prints is sent.
func (h *house) child(name string) (*exec.Cmd, <-chan string) {
	h.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{h.server.Addr(), h.root, name}, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, cmd.Start())
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			h.story.tell(name, "%s", s.Text())
			lines <- s.Text()
		}
	}()
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, lines
}

func TestProcessThatIsKilledLosesItsLocksToTheOthersWithinItsSessionTimeout(t *testing.T) {
	t.Parallel()
	const tick = 500 * time.Millisecond
	server := testbed.Start(t, testbed.Settings{Tick: tick})
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("it is the controller: %t", first), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, server)
			s := spec(12)

			// given a process that shares 12 locks with two participants
			var process *exec.Cmd
			if first {
				var lines <-chan string
				process, lines = h.child("child")
				<-lines
			}
			one, two := h.join(s, "node1"), h.join(s, "node2")
			if !first {
				process, _ = h.child("child")
			}
			h.share(s, map[*player]int{one: 4, two: 4})
			before := h.state()
			gave := len(one.gaveUp()) + len(two.gaveUp())

			// when it is killed
			killed := time.Now()
			require.NoError(t, process.Process.Kill())
			h.share(s, map[*player]int{one: 6, two: 6})
			took := time.Since(killed)

			// then its locks have moved, and no others
			t.Logf("kill -9: 4 locks taken over %s after it; the session lasted %s, a tick is %s", took.Round(time.Millisecond), childSession, tick)
			require.Less(t, took, childSession+2*tick+20*time.Second, "the machine may be busy")
			require.Equal(t, gave, len(one.gaveUp())+len(two.gaveUp()))
			require.Equal(t, 4, h.state().Moved)
			require.Equal(t, before.MovedTotal+4, h.state().MovedTotal)
		})
	}
}
