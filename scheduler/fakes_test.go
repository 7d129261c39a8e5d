package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs a test in virtual time, with a ledger of its own.
func inBubble(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newCluster()) })
}

// bubble is inBubble as a subtest.
func bubble(t *testing.T, name string, f func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, f) })
}

func (c *cluster) daemon(name string) *ledger {
	l := &ledger{cluster: c, name: name, out: make(chan struct{})}
	close(l.out)
	return l
}

// guard grants every lock after a while, or refuses it.
type guard struct {
	mu      sync.Mutex
	wait    time.Duration // until the grant
	fail    error         // instead of a grant
	asked   []lockguard.Requirement
	skipped []skipped
	stuck   []stuck
}

func (g *guard) set(wait time.Duration, fail error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait, g.fail = wait, fail
}

func (g *guard) DoAll(ctx context.Context, requirements []lockguard.Requirement, work func(context.Context) error, hooks ...lockguard.Hook) error {
	r := requirements[0]
	g.mu.Lock()
	g.asked = append(g.asked, requirements...)
	all, fail := g.wait, g.fail
	g.mu.Unlock()
	wait := all
	if r.AcquireTimeout != nil {
		wait = min(wait, *r.AcquireTimeout)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("lock %q not acquired: %w", r.Scope, context.Cause(ctx))
	}
	switch {
	case fail != nil:
		return fail
	case wait < all:
		return &lock.NotAcquiredError{Scope: r.Scope, Waited: wait}
	}
	err := work(ctx)
	if cause := context.Cause(ctx); cause != nil {
		for _, hook := range hooks {
			_ = hook(context.WithoutCancel(ctx))
		}
		return errors.Join(&lockguard.ShutdownError{Scope: r.Scope, Err: cause}, err)
	}
	return err
}

// What a guard is given.
type (
	skipped struct {
		lockguard.Subject
		lockguard.Skipped
	}
	stuck struct {
		lockguard.Subject
		lockguard.Stuck
	}
)

func (g *guard) Observe(_ context.Context, e lockguard.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch n := e.Notice.(type) {
	case lockguard.Skipped:
		g.skipped = append(g.skipped, skipped{e.Subject, n})
	case lockguard.Stuck:
		g.stuck = append(g.stuck, stuck{e.Subject, n})
	default:
		panic("the scheduler tells nothing else")
	}
}

// daemon is a Scheduler under test.
type daemon struct {
	*Scheduler
	t      *testing.T
	ledger *ledger
	guard  *guard
	log    *logBuffer
	stop   context.CancelFunc
	ended  chan struct{}
	left   []string // jobs that Run abandons
}

// abandons says which jobs Run will not see to their end.
func (d *daemon) abandons(jobs ...string) { d.left = jobs }

type option func(*Config)

func withSkew(d time.Duration) option {
	return func(c *Config) { c.Now = func() time.Time { return time.Now().Add(d) } }
}

// start runs a daemon in the test's bubble.
func start(t *testing.T, l *ledger, list []jobs.Job, options ...option) *daemon {
	t.Helper()
	d := &daemon{t: t, ledger: l, guard: &guard{}, log: &logBuffer{}, ended: make(chan struct{})}
	cfg := Config{Guard: d.guard, Ledger: l, Logger: slog.New(slog.NewTextHandler(d.log, nil))}
	for _, o := range options {
		o(&cfg)
	}
	s, err := New(cfg)
	require.NoError(t, err)
	for _, job := range list {
		require.NoError(t, s.Add(job))
	}
	d.Scheduler = s
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	go func() {
		defer close(d.ended)
		err := s.Run(ctx)
		if left, ok := errors.AsType[*AbandonedError](err); ok && slices.Equal(left.Jobs, d.left) {
			return
		}
		if err != nil || d.left != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		l.restore()
		<-d.ended
	})
	synctest.Wait()
	return d
}

// drain stops the daemon and waits until it has.
func (d *daemon) drain() {
	d.stop()
	<-d.ended
}

// kill ends the daemon as kill -9 does, as far as the others can see.
func (d *daemon) kill() {
	d.ledger.die()
	d.stop()
}

func (d *daemon) stats(job string) JobStats { return d.Stats()[job] }

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lines counts the log lines that contain all of the words.
func (l *logBuffer) lines(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.b.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		n++
	}
	return n
}

// job makes a job whose work takes some time and honours its context.
func job(name, schedule string, takes time.Duration) jobs.Job {
	return jobs.Job{Name: name, Schedule: schedule, Work: jobs.Func(func(ctx context.Context, _ jobs.Run) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})}
}

func locked(j jobs.Job) jobs.Job {
	j.Requirements = []lockguard.Requirement{{Scope: "db", Terms: priority.Terms{CleanupTimeout: time.Second}}}
	return j
}

// epoch is when a bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func sec(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

func minute(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }

// requireOnce checks that the instants from one to another, a step apart, each
// ended exactly once, as want says.
func requireOnce(t *testing.T, c *cluster, job string, from, to time.Time, step time.Duration, want ...string) {
	t.Helper()
	got := c.outcomes(job)
	for at := from; !at.After(to); at = at.Add(step) {
		require.Len(t, got[at], 1, "job %s at %s: %v", job, at, got[at])
		require.Contains(t, want, got[at][0], "job %s at %s", job, at)
	}
}
