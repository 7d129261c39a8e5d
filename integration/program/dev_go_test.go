package program

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// The program of the README and the commands that dev prints work on one server,
// whichever comes first.
func TestGoProgramOfTheReadmeAndTheCommandsOfDevShareAServer(t *testing.T) {
	t.Parallel()
	for _, programFirst := range []bool{true, false} {
		name := "commands first"
		if programFirst {
			name = "program first"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startDev(t)
			program := readmeProgram(t, server.inGo)
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
				out, err := exec.Command(program).CombinedOutput()
				require.NoError(t, err, "%s", out)
				commands()
				return
			}
			commands()
			out, err := exec.Command(program).CombinedOutput()
			require.NoError(t, err, "%s", out)
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
		digest: find(`export LOCKKEEPER_ZK_DIGEST_FILE=(\S+)`), inGo: find(`(?s)  In Go:\n\n(.*recipes\.NewClient\(cfg\))\n`),
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
	command := exec.Command(filepath.Join(binaries, "lockkeeper"), args...)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), append(env, "LOCKKEEPER_ZK="+s.zk, "LOCKKEEPER_ROOT="+s.root)...)
	out, _ := command.CombinedOutput()
	require.Equal(t, code, command.ProcessState.ExitCode(), "%q: %s", args, out)
	return string(out)
}

// readmeProgram builds the program of the README's section "In Go", with the lines that
// dev prints to connect.
func readmeProgram(t *testing.T, connect string) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(readme), "## In Go\n\n```go\n")
	require.True(t, found)
	snippet, _, found := strings.Cut(section, "```\n")
	require.True(t, found)
	first, rest, found := strings.Cut(snippet, "\n")
	require.True(t, found)
	require.Equal(t, `client, err := recipes.NewClient(recipes.Config{Servers: []string{"localhost:2181"}})`, first)
	source := `package main

import (
	"context"
	"log"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func compact(context.Context, lockguard.Token) error { return nil }
func restore(context.Context) error { return nil }

func main() {
	ctx := context.Background()
	` + connect + "\n" + strings.ReplaceAll(rest, "...", "if err != nil { log.Fatal(err) }") + `
	if err != nil { log.Fatal(err) }
	if err := client.Close(ctx); err != nil { log.Fatal(err) }
}
`
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	build := exec.Command("go", append(harness.BuildArgs(program), file)...)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, source)
	return program
}
