package emergency

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// patience is how long a test waits for something that has to happen, but has no
// time by which.
const patience = 30 * time.Second

// configuration is that of the daemons. The jobs of a kind are named after it.
const configuration = `version: 1
zookeeper: {session_timeout: 4s}
emergency: {file: overrides.yaml, allow_bypass: true}
jobs:
  boost:  {schedule: "@every 1s", run: [sh, -c, "exit 0"], locks: [{scope: town/boost, priority: 20, acquire_timeout: 10m}]}
  cap:    {schedule: "@every 1s", run: [sh, -c, "exit 0"], locks: [{scope: town/cap, priority: 20, acquire_timeout: 10m}]}
  extend: {schedule: "@every 1s", run: [sh, -c, "exit 0"], locks: [{scope: town/extend, priority: 20, acquire_timeout: 10m, lease_timeout: 1m}]}
  bypass: {schedule: "@every 1s", run: [sh, -c, "echo ran >> bypassed; sleep 0.2"], locks: [{scope: town/bypass, acquire_timeout: 10m}]}
  freeze: {schedule: "@every 1s", run: [sh, -c, "exit 0"], locks: [{scope: town/freeze, priority: 20, acquire_timeout: 10m}]}
  pause:  {schedule: "@every 1s", run: [sh, -c, "echo ran >> unpaused"]}
`

// A town has three daemons, and the test as somebody who uses its locks.
type town struct {
	*testing.T
	dir     string
	env     []string
	client  *recipes.Client
	guard   *lockguard.Guard
	daemons []*daemon
	gone    <-chan error // why the holder that is asked to go has to
}

type daemon struct {
	cmd *exec.Cmd
	log *logbook
}

// A logbook is what a daemon logs.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// has reports whether a line has all the parts.
func (l *logbook) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		return true
	}
	return false
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{T: t, dir: t.TempDir()}
	server, root := shared.Server(t), testbed.Root(t)
	w.write("lockkeeper.yaml", configuration)
	w.write("ana", "ana:secret\n")
	w.env = append(os.Environ(), "COLUMNS=200", "LOCKKEEPER_ZK="+server.Addr(), "LOCKKEEPER_ROOT="+root,
		"LOCKKEEPER_ZK_DIGEST_FILE="+filepath.Join(w.dir, "ana"), "GORACE=atexit_sleep_ms=0")
	var err error
	w.client, err = recipes.NewClient(recipes.Config{
		Auth: &recipes.Digest{User: "ana", Password: "secret"}, Root: root, Servers: []string{server.Addr()}, SessionTimeout: 4 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.client.Close(ctx)
	})
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
		d := &daemon{cmd: exec.Command(program, "run", "-f", "lockkeeper.yaml"), log: &logbook{}}
		d.cmd.Dir, d.cmd.Env, d.cmd.Stderr = w.dir, w.env, d.log
		require.NoError(w, d.cmd.Start())
		w.daemons = append(w.daemons, d)
		w.Cleanup(func() {
			_ = d.cmd.Process.Signal(syscall.SIGTERM)
			killer := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
			defer killer.Stop()
			_ = d.cmd.Wait()
			if w.Failed() {
				w.Logf("log of a daemon:\n%s", d.log.text.String())
			}
		})
	}
	for _, d := range w.daemons {
		w.within(patience, "a daemon starts", func() bool { return d.log.has("scheduler started") })
	}
}

// within waits until something holds, and returns how long that took.
func (w *town) within(most time.Duration, what string, holds func() bool) time.Duration {
	w.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if holds() {
			return time.Since(began)
		}
		require.Less(w, time.Since(began), most, what)
		<-tick.C
	}
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
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = w.dir, w.env
	out, err := c.CombinedOutput()
	return string(out), err
}

func (w *town) lock(scope string) recipes.LockState {
	w.Helper()
	state, err := w.client.Lock(w.Context(), scope)
	require.NoError(w, err)
	return state
}

// waiter is the request of a job, if it waits.
func (w *town) waiter(job string) (recipes.Contender, bool) {
	for _, c := range w.lock("town/" + job).Waiters {
		if c.Owner == job {
			return c, true
		}
	}
	return recipes.Contender{}, false
}

// occupy holds a lock of the town until the test ends, or it is asked to go.
// The channel gets why it had to.
func (w *town) occupy(scope string) (gone <-chan error) {
	w.Helper()
	held, result := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		r := lockguard.Requirement{Scope: scope, Priority: 90, LeaseTimeout: time.Hour, CleanupTimeout: 30 * time.Second}
		result <- w.guard.Do(ctx, r, func(ctx context.Context) error {
			close(held)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	w.Cleanup(cancel)
	select {
	case <-held:
	case err := <-result:
		require.NoError(w, err)
	case <-time.After(patience):
		require.FailNow(w, "the lock cannot be had")
	}
	return result
}

// audited counts the records of an action about an override.
func (w *town) audited(action recipes.AuditAction, id string) (n int) {
	w.Helper()
	out, err := w.client.AuditLog(0)
	require.NoError(w, err)
	records, err := allRecords(w.Context(), out)
	require.NoError(w, err)
	for _, r := range records {
		if r.Action == action && r.Override == id && r.Phase == recipes.AuditOutcome {
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
