package program

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// The program of the README, a program that begins with the lines that dev prints,
// and the commands that it prints work on one server, whichever comes first.
func TestGoProgramOfTheReadmeAndTheCommandsOfDevShareAServer(t *testing.T) {
	t.Parallel()
	readme := readmeProgram(t)
	for _, programFirst := range []bool{true, false} {
		name := "commands first"
		if programFirst {
			name = "program first"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startDev(t)
			printed := printedProgram(t, server.inGo)
			programs := func() {
				require.Regexp(t, `^token [1-9][0-9]*\n$`, runGo(t, readme, "LOCKKEEPER_ZK="+server.zk))
				runGo(t, printed)
			}
			commands := func() {
				server.lockkeeper(t, 0, "exec", "--scope", "cluster/orders", "--", "true")
				server.lockkeeper(t, 0, "override", "apply", "stop", "--kind", "freeze", "-s", "cluster/*", "--for", "1m", "-r", "test")
				server.stranger(t, 75, "exec", "--scope", "cluster/orders", "--acquire", "200ms", "--", "true")
				server.stranger(t, 78, "override", "clear", "stop", "-r", "test")
				server.lockkeeper(t, 0, "override", "clear", "stop", "-r", "test")
				server.lockkeeper(t, 0, "audit")
				server.lockkeeper(t, 0, "locks", "ls")
				server.lockkeeper(t, 0, "doctor")
			}
			if programFirst {
				programs()
				commands()
				return
			}
			commands()
			programs()
			require.Contains(t, server.lockkeeper(t, 0, "locks", "ls"), "cluster/orders/resource/users")
		})
	}
}

// A devServer is one of lockkeeper dev --no-jobs.
type devServer struct{ zk, root, digest, inGo string }

func startDev(t *testing.T) devServer {
	t.Helper()
	dev := exec.Command(filepath.Join(binaries, "lockkeeper"), "dev", "--no-jobs", "--listen", "127.0.0.1:0", "--console", "off")
	stdout, err := dev.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dev.Start())
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGINT)
		_ = dev.Wait()
	})
	var banner strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.Contains(lines.Text(), "Ctrl-C"); {
		banner.WriteString(lines.Text() + "\n")
	}
	find := func(expression string) string {
		found := regexp.MustCompile(expression).FindStringSubmatch(banner.String())
		require.NotNil(t, found, "%s in %s", expression, banner.String())
		return found[1]
	}
	return devServer{
		zk: find(`export LOCKKEEPER_ZK=(\S+) `), root: find(`LOCKKEEPER_ROOT=(\S+)`),
		digest: find(`export LOCKKEEPER_ZK_DIGEST_FILE=(\S+)`), inGo: find(`(?s)  In Go:\n\n(.*lockkeeper\.Connect\([^\n]*\))\n`),
	}
}

// lockkeeper runs a command with what dev says to export.
func (s devServer) lockkeeper(t *testing.T, code int, args ...string) string {
	t.Helper()
	return s.run(t, code, args, "LOCKKEEPER_ZK_DIGEST_FILE="+s.digest)
}

// stranger runs it without credentials.
func (s devServer) stranger(t *testing.T, code int, args ...string) string {
	t.Helper()
	return s.run(t, code, args)
}

func (s devServer) run(t *testing.T, code int, args []string, env ...string) string {
	t.Helper()
	env = append(os.Environ(), append(env, "LOCKKEEPER_ZK="+s.zk, "LOCKKEEPER_ROOT="+s.root)...)
	dir := t.TempDir()
	var out []byte
	var is int
	harness.Eventually(t, func() bool { // on a busy machine it may not connect in time
		command := exec.Command(filepath.Join(binaries, "lockkeeper"), args...)
		command.Dir, command.Env = dir, env
		out, _ = command.CombinedOutput()
		is = command.ProcessState.ExitCode()
		return is == code || !harness.Unanswered(is, string(out))
	}, "%q is answered", args)
	require.Equal(t, code, is, "%q: %s", args, out)
	return string(out)
}

// readmeProgram builds the first program of the README as its reader does: as it
// stands there, in a module outside of this repository. It needs no network.
func readmeProgram(t *testing.T) string {
	t.Helper()
	return buildModule(t, inGo(t)[0])
}

// printedProgram builds the second piece of Go of the README behind the lines that dev
// prints to connect.
func printedProgram(t *testing.T, connect string) string {
	t.Helper()
	return buildModule(t, `package main

import (
	"context"
	"log"
	"time"

	"github.com/lockkeeper/lockkeeper"
)

func compact(context.Context, lockkeeper.Token) error { return nil }
func restore(context.Context) error { return nil }

func main() {
	ctx := context.Background()
	`+connect+`
	if err != nil { log.Fatal(err) }
	guard, err := lockkeeper.NewGuard(client)
	if err != nil { log.Fatal(err) }
	`+inGo(t)[1]+`
	if err != nil { log.Fatal(err) }
	if err := client.Close(ctx); err != nil { log.Fatal(err) }
}
`)
}

// inGo returns the pieces of Go in the README's section "In Go".
func inGo(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(readme), "\n## In Go\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	pieces := strings.Split(section, "```go\n")[1:]
	for i, piece := range pieces {
		pieces[i], _, found = strings.Cut(piece, "```\n")
		require.True(t, found)
	}
	require.Len(t, pieces, 2)
	return pieces
}

// buildModule builds a program in a module of its own that requires this one.
func buildModule(t *testing.T, source string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/first\n\ngo 1.26.0\n\n" +
			"require github.com/lockkeeper/lockkeeper v0.0.0\n\n" +
			"replace github.com/lockkeeper/lockkeeper => " + strconv.Quote(root) + "\n",
		"go.sum":  string(sums),
		"main.go": source,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	program := filepath.Join(dir, "program")
	build := exec.Command("go", append(harness.BuildArgs(program), ".")...)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, source)
	return program
}

// runGo runs a program and returns what it prints.
func runGo(t *testing.T, program string, env ...string) string {
	t.Helper()
	command := exec.Command(program)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
