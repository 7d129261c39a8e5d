package console

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
	run := exec.Command(program, "run", "-f", "lockkeeper.yaml",
		"--zk", shared.Server(t).Addr(), "--root", root, "--zk-digest-file", "credentials")
	run.Dir = dir
	_, address, _ := strings.Cut(harness.StartDaemon(t, run).Await(t, "the console is served", "address="), "address=")
	return "http://" + strings.Fields(address)[0]
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
