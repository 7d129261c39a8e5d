package prometheus

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// installed finds one of Prometheus' programs.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "%s is not installed: run make setup, or apt-get install prometheus", name)
	return path
}

// A server is a Prometheus of its own, which dies with the test.
type server struct {
	t   *testing.T
	url string
}

// What Prometheus calls those that it scrapes here.
const (
	workers = "workers"
	daemons = "daemons"
)

// startPrometheus starts a server that scrapes the targets twice a second, evaluates
// the rules each second and keeps exemplars.
func startPrometheus(t *testing.T, rules []byte, targets map[string][]string) *server {
	t.Helper()
	program := installed(t, "prometheus")
	port, err := loopback.Reserve()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Release()) })

	dir := t.TempDir()
	config := "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n"
	for name, addresses := range targets {
		config += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%s]}]}\n", name, `"`+strings.Join(addresses, `", "`)+`"`)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))
	p := begin(t, exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+port.Addr(), "--enable-feature=exemplar-storage", "--log.level=warn"), dir, 10*time.Second)
	s := &server{t: t, url: "http://" + port.Addr()}
	s.wait("Prometheus answers", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/-/ready", http.NoBody)
		require.NoError(t, err)
		response, err := new(http.Client).Do(request)
		if err != nil {
			if !p.Alive() {
				return fmt.Errorf("%w: %w", process.ErrEnded, err)
			}
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		return nil
	})
	return s
}

// begin starts a process, which ends with the test; its log is in dir.
func begin(t *testing.T, cmd *exec.Cmd, dir string, grace time.Duration) *process.Process {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Terminate(grace))
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s said:\n%s", cmd, text[max(0, len(text)-8000):])
		}
	})
	return p
}

// wait waits until check returns nil.
func (s *server) wait(what string, check func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), harness.Patience)
	defer cancel()
	require.NoError(s.t, process.Poll(ctx, 50*time.Millisecond, func() error { return check(ctx) }), what)
}
