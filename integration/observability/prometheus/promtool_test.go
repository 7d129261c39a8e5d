package prometheus

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/dashboards"
)

// promtool runs promtool in a directory and returns all that it says.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), installed(t, "promtool"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// written returns a directory with all files.
func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := dashboards.Files()
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Text, 0o600))
	}
	return dir
}

func TestPromtoolHasNothingToSayOfTheRules(t *testing.T) {
	out, err := promtool(t, written(t), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	require.NoError(t, err, out)
	require.Contains(t, out, "SUCCESS")
}

func TestEachRuleDoesWhatItsTestSays(t *testing.T) {
	dir := written(t)
	out, err := promtool(t, dir, "test", "rules", "rules_test.yaml")
	require.NoError(t, err, out)

	// Each bound is tested from both sides: with another one, its test fails.
	rules, err := os.ReadFile(filepath.Join(dir, "rules.yaml"))
	require.NoError(t, err)
	for _, bound := range []string{" > -1", " > 1e9"} {
		t.Run("with"+bound, func(t *testing.T) {
			t.Parallel() // each takes seconds
			dir, moved := written(t), string(rules)
			for _, a := range dashboards.Alerts() {
				if a.Is != "" {
					require.Equal(t, 1, strings.Count(moved, a.Expr()+"\n"), a.Name)
					moved = strings.Replace(moved, a.Expr()+"\n", strings.TrimSuffix(a.Expr(), a.Is)+bound+"\n", 1)
				}
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(moved), 0o600))
			out, err := promtool(t, dir, "test", "rules", "rules_test.yaml")
			require.Error(t, err, out)
			for _, a := range dashboards.Alerts() {
				require.Equal(t, a.Is != "", strings.Contains(out, "alertname: "+a.Name+","), "%s%s: %s", a.Name, bound, out)
			}
		})
	}
}

// What is scraped is as Prometheus wants it, but for two names: those of
// OpenTelemetry's conventions for what is counted now.
func (p *play) scraped(t *testing.T) {
	for _, address := range []string{p.alpha.addr, p.daemon.addr} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
		require.NoError(t, err)
		response, err := new(http.Client).Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		cmd := exec.CommandContext(t.Context(), installed(t, "promtool"), "check", "metrics")
		cmd.Stdin = response.Body
		out, _ := cmd.CombinedOutput() // it fails for what it has to say
		var said []string
		for line := range strings.Lines(string(out)) {
			said = append(said, strings.TrimSpace(line))
		}
		const suffix = ` non-histogram and non-summary metrics should not have "_count" suffix`
		require.ElementsMatch(t, []string{"lockkeeper_lock_holder_count" + suffix, "lockkeeper_lock_waiter_count" + suffix}, said)
	}
}
