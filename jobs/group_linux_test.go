package jobs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

func requireEmptyGroup(t *testing.T, group int) {
	t.Helper()
	members, err := membersOf(group)
	require.NoError(t, err)
	for _, m := range members {
		require.True(t, m.ended, "process %d of the group lives", m.pid)
	}
	require.False(t, alive(group))
}

func countLines(said, line string) (n int) {
	for l := range strings.Lines(said) {
		if strings.TrimSuffix(l, "\n") == line {
			n++
		}
	}
	return n
}

func TestBackgroundGrandchildKeepsRunFromReturning(t *testing.T) {
	r := run(t, never, `sleep 1000 >/dev/null 2>&1 & echo grandchild $!; echo child $$; exit 5`)
	grandchild := r.said.awaitPID(t, "grandchild")
	child := r.said.awaitPID(t, "child")
	awaitState(t, child, "Z")
	require.Never(t, r.over, 300*time.Millisecond, 10*time.Millisecond)

	require.NoError(t, syscall.Kill(grandchild, syscall.SIGKILL))

	err := r.wait(t)
	var exit *ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 5, exit.Code)
}

func TestBackgroundGrandchildrenAreToldToGoAndKilled(t *testing.T) {
	h := newFakeHold(t)
	r := runAs(t, Run{}, h, never, `
		sh -c 'trap "echo heard; kill -9 \$!; exit" TERM; sleep 1000 & echo polite $$; wait' &
		sh -c 'trap "" TERM; echo deaf $$; sleep 1000' &
		echo child $$`)
	polite, deaf := r.said.awaitPID(t, "polite"), r.said.awaitPID(t, "deaf")
	child := r.said.awaitPID(t, "child")
	awaitState(t, child, "Z")

	r.cancel(errOver)
	r.said.await(t, "heard")
	awaitDeath(t, polite)
	require.True(t, alive(deaf))
	h.lose(&lockguard.LostError{})

	stopped := r.stopped(t)
	require.True(t, stopped.Killed)
	require.Nil(t, stopped.Exit, "the command itself had ended well")
	require.False(t, alive(deaf))
	requireEmptyGroup(t, child)
}

func TestProcessThatLeavesTheGroupIsNotWaitedFor(t *testing.T) {
	r := run(t, never, `setsid sleep 1000 >/dev/null 2>&1 & echo daemon $!; until kill -0 -$! 2>/dev/null; do :; done`)
	daemon := r.said.awaitPID(t, "daemon")
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	require.NoError(t, r.wait(t))
	require.True(t, alive(daemon))
}

func TestUnreapedZombieCountsAsGone(t *testing.T) {
	// A shell leaves a child behind in the group, and becomes, outside the
	// group, a program that knows nothing of it.
	r := run(t, never, `sh -c 'sleep 0.3 & echo zombie $!; exec setsid sleep 1000 >/dev/null 2>&1' & echo keeper $!; wait`)
	zombie, keeper := r.said.awaitPID(t, "zombie"), r.said.awaitPID(t, "keeper")
	awaitState(t, zombie, "Z")
	t.Cleanup(func() { _ = syscall.Kill(keeper, syscall.SIGKILL) })

	require.Eventually(t, func() bool {
		group, err := syscall.Getpgid(keeper)
		return err == nil && group == keeper
	}, patience, time.Millisecond, "the keeper stays in the group")

	r.cancel(errOver)
	require.ErrorIs(t, r.stopped(t), errOver)
	require.Equal(t, "Z", state(zombie))
	require.True(t, alive(keeper))
}

func TestWithoutAGuardianTheCommandItselfStillDiesWithItsParent(t *testing.T) {
	parent := startRole(t, "parent", `echo child $$; exec sleep 1000`)
	child := parent.said.awaitPID(t, "child")
	guardian := guardianOf(t, parent.cmd.Process.Pid, child)
	require.NoError(t, syscall.Kill(guardian, syscall.SIGKILL))
	awaitDeath(t, guardian)

	require.NoError(t, parent.cmd.Process.Kill())

	_ = parent.cmd.Wait()
	awaitDeath(t, child)
}

func TestGuardianSurvivesWhatTheGroupOfItsParentGets(t *testing.T) {
	parent := startRole(t, "parent", `trap '' HUP INT TERM QUIT; echo child $$; sleep 1000 & echo grandchild $!; wait`)
	child, grandchild := parent.said.awaitPID(t, "child"), parent.said.awaitPID(t, "grandchild")
	guardian := guardianOf(t, parent.cmd.Process.Pid, child)
	signals := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}
	for _, s := range signals {
		require.NoError(t, syscall.Kill(guardian, s))
	}
	require.NoError(t, syscall.Kill(-parent.cmd.Process.Pid, syscall.SIGKILL))

	_ = parent.cmd.Wait()
	awaitDeath(t, child)
	awaitDeath(t, grandchild)
}

func TestSubreaperReapsTheOrphansOfTheGroup(t *testing.T) {
	role := startRole(t, "subreaper", `(sh -c 'sleep 0.05; exit 3' &) ; (sleep 0.01 &); exit 0`)
	require.NoError(t, role.cmd.Wait(), role.said.String())
	require.Contains(t, role.said.String(), "no child is left")
}

func TestParseStat(t *testing.T) {
	rest := func(state string, threads string) string {
		return state + " 7 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 " + threads + " 0 100 0 0"
	}
	for name, c := range map[string]struct {
		stat  string
		want  member
		group int
		ok    bool
	}{
		"sleeps":               {"12 (sleep) " + rest("S", "1"), member{12, 7, false}, 42, true},
		"odd name":             {"12 (a) Z 1 (b) ) " + rest("R", "3"), member{12, 7, false}, 42, true},
		"zombie":               {"12 (x) " + rest("Z", "1"), member{12, 7, true}, 42, true},
		"invisible zombie":     {"12 (x) " + rest("X", "0"), member{12, 7, true}, 42, true},
		"only its threads run": {"12 (x) " + rest("Z", "2"), member{12, 7, false}, 42, true},
		"cut off":              {"12 (x) S 7", member{}, 0, false},
		"empty":                {"", member{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, group, ok := parseStat(12, []byte(c.stat))
			require.Equal(t, c.want, m)
			require.Equal(t, c.group, group)
			require.Equal(t, c.ok, ok)
		})
	}
}

// role is this test binary in another process.
type role struct {
	cmd  *exec.Cmd
	said *transcript
}

func startRole(t *testing.T, name, script string) *role {
	t.Helper()
	r := &role{cmd: exec.Command(os.Args[0]), said: &transcript{}}
	r.cmd.Env = roleEnvironment(name, script)
	r.cmd.Stdout, r.cmd.Stderr = r.said, r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = patience // for what a failed test leaves
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	return r
}

// guardianOf waits until a process has a guardian that knows the group, and
// returns it.
func guardianOf(t *testing.T, parent, group int) (pid int) {
	t.Helper()
	arguments := fmt.Sprintf("\x00lockkeeper-guardian\x00%d\x00", group)
	require.Eventually(t, func() bool {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			if !strings.HasSuffix(string(cmdline), arguments) {
				continue
			}
			stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
			if m, session, ok := parseStat(0, stat); ok && m.parent == parent {
				pid = session // its session is its own
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "no guardian")
	return pid
}
