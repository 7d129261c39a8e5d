package console

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

// daemon runs the program itself, with a configuration, and returns where its console
// is.
func daemon(t *testing.T, root, configuration string) string {
	t.Helper()
	dir := t.TempDir()
	program, err := harness.Build(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "credentials"), []byte("daemon:secret"), 0o600))
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "users"), fmt.Appendf(nil, "ana:%s\n", hash), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lockkeeper.yaml"), []byte(configuration), 0o600))
	run := exec.CommandContext(context.Background(), program, "run", "-f", "lockkeeper.yaml",
		"--zk", shared.Server(t).Addr(), "--root", root, "--zk-digest-file", "credentials")
	run.Dir = dir
	said, err := run.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	served, done := make(chan string, 1), make(chan struct{})
	var text []byte
	go func() {
		defer close(done)
		address := regexp.MustCompile(`msg="the console is served" address=(\S+)`)
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			text = append(append(text, lines.Bytes()...), '\n')
			if m := address.FindSubmatch(lines.Bytes()); m != nil {
				served <- "http://" + string(m[1])
			}
		}
	}()
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(patience, func() { _ = run.Process.Kill() })
		defer late.Stop()
		<-done
		_ = run.Wait() // how it ends is not what the test is about
		if t.Failed() {
			t.Logf("the daemon said:\n%s", text)
		}
	})
	select {
	case url := <-served:
		return url
	case <-done:
		require.Fail(t, "the daemon has ended", "%s", text)
	case <-time.After(patience):
		require.Fail(t, "the daemon does not serve its console")
	}
	return ""
}

// TestSomebodyPausesResumesAndRunsAJobOfTheProgram does it with the program as it is
// installed.
func TestSomebodyPausesResumesAndRunsAJobOfTheProgram(t *testing.T) {
	t.Parallel()
	b := open(t, daemon(t, testbed.Root(t), `version: 1
console: {listen: "127.0.0.1:0", actions: true, users_file: users}
jobs:
  bake: {schedule: manual, run: ["true"]}
`))
	b.visit("/jobs/bake")
	require.Zero(t, ask[int](b, `document.querySelectorAll("main form[method=post] button, main .button").length`), "not signed in")
	signIn(b)
	for _, deed := range []struct{ open, press, reason, shows string }{
		{"Pause…", "Pause it", "the oven is cold", "bake is paused until somebody resumes it."},
		{"Resume…", "Resume it", "the oven is hot", "bake runs again from its next tick on."},
		{"Run now…", "Run it now", "guests are hungry", "A daemon has taken the request: bake runs"},
	} {
		b.visit("/jobs/bake")
		b.click(deed.open)
		b.write("Reason", deed.reason)
		b.click(deed.press)
		b.shows(deed.shows)
		if deed.press == "Pause it" {
			b.shows("Paused by ana")
		}
	}
	b.until("how it ran", `document.querySelector("main").innerText.includes("guests are hungry")`)
	b.click("Audit")
	b.until("six records", `document.querySelectorAll("#audit tbody tr").length === 6`)
	rows := ask[[]string](b, `[...document.querySelectorAll("#audit tbody tr")].map(r => r.innerText)`)
	count := map[string]int{}
	for _, row := range rows {
		require.Contains(t, row, "ana")
		require.Contains(t, row, "bake")
		for _, reason := range []string{"the oven is cold", "the oven is hot", "guests are hungry"} {
			if regexp.MustCompile(reason).MatchString(row) {
				count[reason]++
			}
		}
	}
	require.Equal(t, map[string]int{"the oven is cold": 2, "the oven is hot": 2, "guests are hungry": 2}, count, "what was about to be done, and what has come of it")
}
