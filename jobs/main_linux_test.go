package jobs

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// TestMain lets tests start this binary again, as a process that plays a role.
func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv("JOBS_TEST_ROLE")]; ok {
		os.Exit(role())
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) { // by nohup, or a shell's &: no script could hear it
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// never is a grace that no test lives to see the end of.
const never = time.Hour

// transcript is what a command has said so far.
type transcript struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.String()
}

// await waits for a line with the given first word, and returns the others.
func (t *transcript) await(tb testing.TB, word string) []string {
	tb.Helper()
	var words []string
	require.Eventually(tb, func() bool {
		said := t.String()
		for line := range strings.Lines(said) {
			fields := strings.Fields(line)
			if strings.HasSuffix(line, "\n") && len(fields) > 0 && fields[0] == word {
				words = fields[1:]
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "waiting for %q", word)
	return words
}

func (t *transcript) awaitPID(tb testing.TB, word string) int {
	tb.Helper()
	words := t.await(tb, word)
	require.Len(tb, words, 1)
	pid, err := strconv.Atoi(words[0])
	require.NoError(tb, err)
	return pid
}

// running is a script that a Command runs.
type running struct {
	said   transcript
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // once done
}

// run runs a shell script with the given cleanup timeout, under a lock that
// stays; each option may change the command.
func run(t *testing.T, cleanup time.Duration, script string, options ...func(*Command)) *running {
	t.Helper()
	return runAs(t, Run{Job: t.Name()}, newFakeHold(t), cleanup, script, options...)
}

// runAs does so in a run and under a lock of the test's own.
func runAs(t *testing.T, as Run, h *fakeHold, cleanup time.Duration, script string, options ...func(*Command)) *running {
	t.Helper()
	ctx := h.ctx
	if ctx.Err() != nil {
		ctx = h.hookCtx
	}
	r := &running{done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	c := &Command{Argv: []string{"/bin/sh", "-c", script}, CleanupTimeout: cleanup, Stdout: &r.said, Stderr: &r.said}
	for _, option := range options {
		option(c)
	}
	var under lockguard.WorkHold = h
	if as.Lost != nil {
		under, c.CleanupTimeout = nil, 2*patience // what is lost is no lock of package lockguard
	}
	go func() {
		defer close(r.done)
		r.err = c.run(r.ctx, as, under)
	}()
	t.Cleanup(func() {
		h.lose(&lockguard.LostError{}) // kills whatever a failed test leaves
		<-r.done
	})
	return r
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		require.FailNow(t, "the command does not end", "it said:\n%s", r.said.String())
		return nil
	}
}

func (r *running) over() bool { return closed(r.done) }

// stopped waits for the end of a cancelled command.
func (r *running) stopped(t *testing.T) *StoppedError {
	t.Helper()
	err := r.wait(t)
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped, "it said:\n%s", r.said.String())
	return stopped
}

// fakeHold is a lock whose fate the test decides.
type fakeHold struct {
	ctx     context.Context
	end     context.CancelCauseFunc
	hookCtx context.Context // of a cleanup hook, when ctx has ended
	info    lockguard.Info
	tokens  map[string]lockguard.Token // of several locks
	lost    chan struct{}
	atRisk  chan struct{}
	trace   string
}

func newFakeHold(t *testing.T) *fakeHold {
	t.Helper()
	h := &fakeHold{hookCtx: context.Background(), lost: make(chan struct{}), atRisk: make(chan struct{})}
	h.ctx, h.end = context.WithCancelCause(context.Background())
	t.Cleanup(func() { h.end(nil) })
	return h
}

func (h *fakeHold) Context() context.Context { return h.ctx }
func (h *fakeHold) Info() lockguard.Info     { return h.info }
func (h *fakeHold) Tokens() map[string]lockguard.Token {
	if h.tokens != nil {
		return h.tokens
	}
	return map[string]lockguard.Token{h.info.Requirement.Scope: h.info.Token}
}

func (h *fakeHold) Lost() <-chan struct{}   { return h.lost }
func (h *fakeHold) AtRisk() <-chan struct{} { return h.atRisk }
func (h *fakeHold) Trace() string           { return h.trace }

// lose ends the context before it closes lost, as a Hold does: who sees the
// loss finds its cause.
func (h *fakeHold) lose(err *lockguard.LostError) {
	h.end(err)
	if !closed(h.lost) {
		close(h.lost)
	}
}

// alive reports whether pid is a process that runs, zombies excluded.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	m, _, ok := parseStat(pid, stat)
	return ok && !m.ended
}

func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := cutLast(stat, []byte(") "))
	return string(rest[:1])
}

func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return state(pid) == want }, patience, time.Millisecond, "state of %d is %q, not %q", pid, state(pid), want)
}

func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(pid) }, patience, time.Millisecond, "process %d lives", pid)
}

// noChildren asserts that this process has no child left, not even a zombie.
func noChildren(t *testing.T) {
	t.Helper()
	pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	require.ErrorIs(t, err, syscall.ECHILD, "child %d is left", pid)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
