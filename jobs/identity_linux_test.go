package jobs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// other is a user without rights on any Linux, with a group of the same number.
const (
	other   = "nobody"
	otherID = 65534
)

// asOther makes a command run as that user, in a directory that is open to it.
func asOther(c *Command) { c.User, c.Dir = other, "/" }

// forRoot runs f if this process may start commands as any user; else it checks
// that the error says so.
func forRoot(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if maySwitchUser() {
		f(t)
		return
	}
	require.ErrorContains(t, (&Command{Argv: []string{"true"}, User: "daemon"}).Validate(), "and may not start a command as \"daemon\"; start it as root")
}

func TestCommandRunsAsItsUser(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		for user, want := range map[string]string{
			other:             "65534 65534 65534",
			"65534":           "65534 65534 65534",
			other + ":daemon": "65534 1 1 65534",
			other + ":4711":   "65534 4711 4711 65534",
			"4712:4713":       "4712 4713 4713",
			"root":            "0 0 0",
		} {
			t.Run(user, func(t *testing.T) {
				r := run(t, never, `echo $(id -u; id -g; id -G)`, asOther, func(c *Command) { c.User = user })
				require.NoError(t, r.wait(t))
				require.Equal(t, want+"\n", r.said.String())
			})
		}
	})
}

func TestCommandKnowsWhoItIsUnlessItsEnvironmentSaysSo(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		t.Setenv("HOME", "/of/the/daemon")
		t.Setenv("USER", "the-daemon")
		t.Setenv("LOGNAME", "the-daemon")
		t.Setenv("MINE", "inherited")
		path := "PATH=" + os.Getenv("PATH")
		for name, c := range map[string]struct {
			with func(*Command)
			want string
		}{
			"by default":      {func(*Command) {}, "/nonexistent " + other + " " + other},
			"told more":       {func(c *Command) { c.AddEnv = []string{"HOME=/mine", "MINE=added"} }, "/mine " + other + " " + other + " added"},
			"told all":        {func(c *Command) { c.Env = []string{path, "USER=me"} }, "/nonexistent me " + other},
			"not by name":     {func(c *Command) { c.User = "4712:4713" }, ""},
			"no other":        {func(c *Command) { c.User = "" }, "/of/the/daemon the-daemon the-daemon inherited"},
			"told all, twice": {func(c *Command) { c.User, c.Env, c.AddEnv = "", []string{path, "HOME=/a"}, []string{"HOME=/b"} }, "/b"},
		} {
			t.Run(name, func(t *testing.T) {
				r := run(t, never, `echo $(printenv HOME; printenv USER; printenv LOGNAME; printenv MINE)`, asOther, c.with)
				require.NoError(t, r.wait(t))
				require.Equal(t, c.want+"\n", r.said.String())
			})
		}
	})
}

// The daemon's environment has what it proves itself with to others.
func TestCommandOfAnotherUserGetsNoSecretsOfTheEnvironment(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		t.Setenv("API_TOKEN", "secret")
		t.Setenv("LC_TIME", "C")
		t.Setenv("TZ", "Asia/Tokyo")
		ourselves := strconv.Itoa(os.Geteuid())
		for user, want := range map[string]string{
			other:     "C Asia/Tokyo added",
			ourselves: "secret C Asia/Tokyo added",
			"":        "secret C Asia/Tokyo added",
		} {
			t.Run("as "+user, func(t *testing.T) {
				r := run(t, never, `echo $(printenv API_TOKEN; printenv LC_TIME; printenv TZ; printenv MINE)`, func(c *Command) {
					c.User, c.AddEnv = user, []string{"MINE=added"}
				})
				require.NoError(t, r.wait(t))
				require.Equal(t, want+"\n", r.said.String())
			})
		}
	})
}

func TestCommandOfAnotherUserMayOpenItsOutputAgain(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		r := run(t, never, `echo hello > /dev/stdout; echo oops > /dev/stderr`, asOther)
		require.NoError(t, r.wait(t))
		require.Equal(t, "hello\noops\n", r.said.String())
	})
}

func TestCommandOfAnotherUserHearsSIGTERMAndIsKilled(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		h := newFakeHold(t)
		r := runAs(t, Run{}, h, never, stubborn, asOther)
		pid := r.said.awaitPID(t, "ready")
		require.EqualValues(t, otherID, owner(t, pid))
		r.cancel(errOver)
		r.said.await(t, "told")
		h.lose(&lockguard.LostError{Scope: "s"})
		require.True(t, r.stopped(t).Killed)
		requireEmptyGroup(t, pid)
	})
}

func TestGroupOfAnotherUserIsKilledWithItsParent(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		t.Setenv("JOBS_TEST_USER", other)
		parent := startRole(t, "parent", `trap '' HUP INT TERM; sleep 1000 & echo grandchild $!; echo child $$; wait`)
		child, grandchild := parent.said.awaitPID(t, "child"), parent.said.awaitPID(t, "grandchild")
		require.EqualValues(t, otherID, owner(t, grandchild))
		guardianOf(t, parent.cmd.Process.Pid, child)
		require.NoError(t, parent.cmd.Process.Kill())
		_ = parent.cmd.Wait()
		awaitDeath(t, child)
		awaitDeath(t, grandchild)
	})
}

func owner(t *testing.T, pid int) uint32 {
	t.Helper()
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Uid
}

func TestCommandThatItsUserMayNotRunSaysWhose(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		closed := t.TempDir()
		require.NoError(t, os.Chmod(closed, 0o700))
		program := filepath.Join(closed, "program")
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
		for name, c := range map[string]*Command{
			"a program of others":   {Argv: []string{program}, Dir: "/", User: other},
			"a directory of others": {Argv: []string{"true"}, Dir: closed, User: other},
		} {
			t.Run(name, func(t *testing.T) {
				err := c.Run(t.Context(), Run{})
				require.ErrorAs(t, err, new(*StartError))
				require.ErrorIs(t, err, fs.ErrPermission)
				require.ErrorContains(t, err, `could not be started: user "`+other+`" may not run it, or may not be in its directory: permission denied`)
			})
		}
	})
}

func TestUsersThatCannotBe(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		for user, says := range map[string]string{
			"no-such-user":           `user: user "no-such-user" is not known here; make it, or write another`,
			":daemon":                "user: names no user; write one such as",
			other + ":no-such-group": `user: group "no-such-group" is not known here`,
			other + ":":              `user: group "" is not known here`,
			"4712":                   "user: user 4712 is not known here, so its group is neither; write it behind a colon, such as 4712:4712",
			"4294967295:1":           `user "4294967295" is not known here`,
			"-1":                     `user "-1" is not known here`,
		} {
			err := (&Command{Argv: []string{"true"}, User: user}).Validate()
			require.ErrorContains(t, err, says)
			require.ErrorAs(t, err, new(*lockguard.RequestError))
		}
	})
}

// TestUserIsRefusedWithoutTheRight runs this test binary as other, who may
// run commands as itself and as no other user.
func TestUserIsRefusedWithoutTheRight(t *testing.T) {
	forRoot(t, func(t *testing.T) {
		for user, want := range map[string]string{
			other:  "65534\n",
			"root": "error: lockkeeper: user: this process runs as user 65534 and may not start a command as \"root\"; start it as root, or leave the user out\n",
		} {
			cmd := exec.Command("/proc/self/exe") // its directory may be closed to other
			cmd.Dir = "/"
			cmd.Env = append(roleEnvironment("parent", "id -u"), "JOBS_TEST_USER="+user)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherID, Gid: otherID}}
			said, _ := cmd.Output()
			require.Equal(t, want, string(said), user)
		}
	})
}
