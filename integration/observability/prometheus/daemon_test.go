package prometheus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
)

// A daemon is the program, run as a process, and its files.
type daemon struct {
	t    *testing.T
	dir  string
	addr string // where it is scraped
}

// Its jobs: one that runs, one that fails, one that is tried again, one that is
// longer than its ticks, one that ignores its cancellation, and two that want one
// lock.
const configuration = `version: 1
zookeeper: {servers: "%s", root: "%s", session_timeout: 1m}
metrics: {listen: "%s"}
emergency: {file: overrides.yaml}
drain_timeout: 1s
defaults: {lock: {cleanup_timeout: 9m}} # no run is killed while Prometheus looks
jobs:
  runs: {schedule: "@every 1s", run: ["true"]}
  fails: {schedule: "@every 1s", run: ["false"]}
  retried: {schedule: "@every 1s", run: ["false"], retry: {max: 1, initial: 50ms}}
  slow: {schedule: "@every 1s", run: [sleep, "3"]}
  deaf: {schedule: "@every 1s", run: [sh, deaf.sh], timeout: 100ms, stuck_after: 100ms}
  victim: {schedule: "@every 1s", run: [sleep, "2"], on_preempt: requeue, locks: [{scope: shop, priority: 1}]}
  bully: {schedule: "@every 3s", run: ["true"], locks: [{scope: shop, priority: 9}]}
`

const deaf = `trap '' TERM
until [ -e end ]; do sleep 0.05; done
`

// startDaemon builds the program and runs it, until the end of the test.
func startDaemon(t *testing.T, servers, root string) *daemon {
	t.Helper()
	port, err := loopback.Reserve()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Release()) })
	d := &daemon{t: t, dir: t.TempDir(), addr: port.Addr()}
	d.write("lockkeeper.yaml", fmt.Sprintf(configuration, servers, root, d.addr))
	d.write("deaf.sh", deaf)
	d.write("overrides.yaml", fmt.Sprintf("overrides:\n  - {id: freeze, kind: freeze, match: {scope: unused/*}, until: %s, by: ana, reason: a test}\n",
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))

	program, err := harness.Build(d.dir)
	require.NoError(t, err)

	cmd := exec.Command(program, "run", "-f", "lockkeeper.yaml")
	cmd.Dir = d.dir
	begin(t, cmd, d.dir, 20*time.Second)
	t.Cleanup(func() { d.write("end", "") })
	return d
}

func (d *daemon) write(name, text string) {
	d.t.Helper()
	// In place of what was there, whole: the daemon watches some of them.
	path := filepath.Join(d.dir, name)
	require.NoError(d.t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(d.t, os.Rename(path+".new", path))
}

func (d *daemon) remove(name string) {
	d.t.Helper()
	require.NoError(d.t, os.Remove(filepath.Join(d.dir, name)))
}

func (d *daemon) read(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	require.NoError(d.t, err)
	return string(text)
}
