package emergency

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

var (
	shared  testbed.Shared
	program string // its path
)

func TestMain(m *testing.M) {
	os.Exit(harness.WithProgram(func(path string) int { program = path; return shared.Main(m) }))
}

// configuration is that of the daemons. The jobs of a kind are named after it. No test waits for a session to end, so a
// busy machine should not end one.
const configuration = `version: 1
zookeeper: {session_timeout: 1m}
emergency: {file: overrides.yaml, allow_bypass: true}
jobs:
  boost:  {schedule: "@every 2s", run: [sh, -c, "exit 0"], locks: [{scope: town/boost, priority: 20, acquire_timeout: 10m}]}
  cap:    {schedule: "@every 2s", run: [sh, -c, "exit 0"], locks: [{scope: town/cap, priority: 20, acquire_timeout: 10m}]}
  extend: {schedule: "@every 2s", run: [sh, -c, "exit 0"], locks: [{scope: town/extend, priority: 20, acquire_timeout: 10m, lease_timeout: 1m}]}
  bypass: {schedule: "@every 2s", run: [sh, -c, "echo ran >> bypassed; sleep 0.2"], locks: [{scope: town/bypass, acquire_timeout: 10m}]}
  freeze: {schedule: "@every 2s", run: [sh, -c, "exit 0"], locks: [{scope: town/freeze, priority: 20, acquire_timeout: 10m}]}
  pause:  {schedule: "@every 2s", run: [sh, -c, "echo ran >> unpaused"]}
`

// A town has three daemons, and the test as somebody who uses its locks.
type town struct {
	*harness.Fixture
	dir     string
	env     []string
	client  *lock.Client
	guard   *lockguard.Guard
	daemons []*harness.Daemon
	gone    *harness.Call[any] // of the holder that is preempted
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{Fixture: harness.New(t, shared.Server(t)), dir: t.TempDir()}
	w.write("lockkeeper.yaml", configuration)
	w.write("ana", "ana:secret\n")
	w.env = append(os.Environ(), "COLUMNS=200", "LOCKKEEPER_ZK="+w.Server.Addr(), "LOCKKEEPER_ROOT="+w.Root,
		"LOCKKEEPER_ZK_DIGEST_FILE="+filepath.Join(w.dir, "ana"), "GORACE=atexit_sleep_ms=0")
	var err error
	w.client = w.Client(func(cfg *lock.Config) { cfg.Auth = &lock.Digest{User: "ana", Password: "secret"} })
	w.guard, err = lockguard.New(w.client, lockguard.WithOwner("resident"))
	require.NoError(t, err)
	_, err = w.client.Time(t.Context())
	require.NoError(t, err)
	return w
}

// start starts the daemons, and waits until they run.
func (w *town) start() {
	w.Helper()
	for range 3 {
		cmd := exec.Command(program, "run", "-f", "lockkeeper.yaml")
		cmd.Dir, cmd.Env = w.dir, w.env
		w.daemons = append(w.daemons, harness.StartDaemon(w, cmd))
	}
	for _, d := range w.daemons {
		d.Await(w, "scheduler started")
	}
}

// until waits until something holds.
func (w *town) until(what string, holds func() bool) {
	w.Helper()
	harness.Eventually(w, holds, "%s", what)
}

// write replaces a file at once, as editors do.
func (w *town) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(w, os.Rename(path+".new", path))
}

func (w *town) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(w.dir, name))
	return string(text)
}

// run runs a command of the program, and returns what it said.
func (w *town) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.Context(), harness.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = w.dir, w.env
	out, err := c.CombinedOutput()
	return string(out), err
}

func (w *town) lock(scope string) lock.State {
	w.Helper()
	return w.State(w.client, scope)
}

// waiter is the request of a job, if it waits.
func (w *town) waiter(job string) (lock.Contender, bool) {
	for _, c := range w.lock("town/" + job).Waiters {
		if c.Owner == job {
			return c, true
		}
	}
	return lock.Contender{}, false
}

// occupy holds a lock of the town until the test ends, or it is preempted.
func (w *town) occupy(scope string) (holder *harness.Call[any]) {
	w.Helper()
	held := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	holder = harness.Go(w, "the holder of "+scope, func() (any, error) {
		r := lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: 90, LeaseTimeout: time.Hour, CleanupTimeout: 30 * time.Second}}
		return nil, w.guard.Do(ctx, r, func(ctx context.Context) error {
			close(held)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})
	w.Cleanup(func() { cancel(); <-holder.Done() })
	harness.Receive(w, held, "%s cannot be had", scope)
	return holder
}

// audited counts the records of an action about an override.
func (w *town) audited(action opstore.AuditAction, id string) (n int) {
	w.Helper()
	out, err := w.client.AuditLog(0)
	require.NoError(w, err)
	records, _, err := out.Read(w.Context(), opstore.AuditQuery{})
	require.NoError(w, err)
	for _, r := range records {
		if r.Action == action && r.Override == id && r.Phase == opstore.AuditOutcome {
			n++
		}
	}
	return n
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func yamlOf(all ...string) string {
	return "overrides:\n" + strings.Join(all, "")
}

func entry(id, kind, rest string, until time.Time) string {
	return fmt.Sprintf("  - {id: %s, kind: %s, %s, until: %q, by: ana, reason: test}\n", id, kind, rest, stamp(until))
}
