package temporal_test

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
	"github.com/lockkeeper/lockkeeper/recipes"
)

// binary is the program, built by the first test that wants it.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "lockkeeper-temporal-"); binary.err != nil { //nolint:usetesting // it is for all tests
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(binary.dir, "lockkeeper"), "github.com/lockkeeper/lockkeeper/cmd/lockkeeper")
		if out, err := build.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("build the program: %w\n%s", err, out)
		}
	})
	require.NoError(t, binary.err)
	return filepath.Join(binary.dir, "lockkeeper")
}

// withoutProgram removes what program has built, when the tests are over.
func withoutProgram(run func() int) int {
	defer func() {
		if binary.dir != "" {
			_ = os.RemoveAll(binary.dir)
		}
	}()
	return run()
}

// A house is a directory with configurations, the credentials of the daemons and of
// ana, who is the operator, and the environment of programs that share a root.
type house struct {
	*testing.T
	dir  string
	env  []string
	root string
	ana  string // as operators are written
	own  string // the daemons, likewise
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, dir: t.TempDir(), root: testbed.Root(t)}
	h.write("daemons", "daemons:secret\n")
	h.write("ana", "ana:secret\n")
	h.env = append(os.Environ(), "COLUMNS=160", "LOCKKEEPER_ZK="+zookeeper.Server(t).Addr(), "LOCKKEEPER_ROOT="+h.root,
		"LOCKKEEPER_ZK_DIGEST_FILE="+filepath.Join(h.dir, "daemons"))
	for file, is := range map[string]*string{"ana": &h.ana, "daemons": &h.own} {
		out, code := h.run("config", "operator", "--zk-digest-file", file)
		require.Zero(t, code, out)
		*is, _, _ = strings.Cut(strings.TrimSpace(out), "\n")
	}
	h.env = append(h.env, "LOCKKEEPER_ZK_OPERATORS="+h.ana, "LOCKKEEPER_ZK_CONTENDERS="+h.own)
	out, code := h.run("init", "--zk-digest-file", "ana")
	require.Zero(t, code, out)
	return h
}

func (h *house) write(name, text string) {
	h.Helper()
	require.NoError(h, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600))
}

func (h *house) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.dir, name))
	return string(text)
}

// run runs a command, and returns what it said and its exit code.
func (h *house) run(args ...string) (said string, code int) {
	h.Helper()
	var out bytes.Buffer
	code = h.command(&out, &out, args...)
	return out.String(), code
}

// listed runs a command, and returns what it lists.
func (h *house) listed(args ...string) string {
	h.Helper()
	var out, problems bytes.Buffer
	code := h.command(&out, &problems, append(args, "-o", "json")...)
	require.Zero(h, code, problems.String())
	return out.String()
}

func (h *house) command(out, problems *bytes.Buffer, args ...string) (code int) {
	h.Helper()
	binary := program(h.T) // takes long where it is built
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = h.dir, h.env, out, problems
	err := c.Run()
	if c.ProcessState == nil {
		require.NoError(h, err)
	}
	return c.ProcessState.ExitCode()
}

// client returns one of the daemons.
func (h *house) client() *recipes.Client {
	h.Helper()
	c, err := recipes.NewClient(recipes.Config{
		Auth: &recipes.Digest{User: "daemons", Password: "secret"}, Operators: []string{h.ana}, Contenders: []string{h.own}, Root: h.root,
		Servers: []string{zookeeper.Server(h.T).Addr()}, SessionTimeout: 4 * time.Second,
	})
	require.NoError(h, err)
	h.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(h, c.Close(ctx))
	})
	return c
}

// within waits until something holds.
func (h *house) within(what string, holds func() bool) {
	h.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		require.True(h, time.Now().Before(end), what)
		<-tick.C
	}
}

// A daemon is a process that runs jobs.
type daemon struct {
	h    *house
	cmd  *exec.Cmd
	log  *logbook
	done chan struct{}
}

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

func (h *house) daemon(args ...string) *daemon {
	h.Helper()
	d := &daemon{h: h, cmd: exec.Command(program(h.T), append([]string{"run"}, args...)...), log: &logbook{}, done: make(chan struct{})}
	d.cmd.Dir, d.cmd.Env, d.cmd.Stderr = h.dir, h.env, d.log
	require.NoError(h, d.cmd.Start())
	go func() {
		_ = d.cmd.Wait()
		close(d.done)
	}()
	h.Cleanup(func() {
		d.end(syscall.SIGTERM)
		if h.Failed() {
			h.Logf("log of a daemon:\n%s", d.log.text.String())
		}
	})
	return d
}

// end ends the daemon, and returns when it is gone.
func (d *daemon) end(sig syscall.Signal) {
	d.h.Helper()
	select {
	case <-d.done:
		return
	default:
	}
	_ = d.cmd.Process.Signal(sig)
	select {
	case <-d.done:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.done
	}
}

func (d *daemon) says(parts ...string) {
	d.h.Helper()
	d.h.within("the daemon says "+strings.Join(parts, " ... "), func() bool { return d.log.has(parts...) })
}
