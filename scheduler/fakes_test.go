package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a tick ledger in memory, shared by several daemons.
type cluster struct {
	mu   sync.Mutex
	jobs map[string]*record
	ids  int
}

type record struct {
	last     time.Time
	running  *holding
	outcomes map[time.Time][]string // how each instant ended
}

type holding struct {
	run   recipes.TickRun
	owner *ledger
}

func newCluster() *cluster { return &cluster{jobs: map[string]*record{}} }

func (c *cluster) of(job string) *record {
	if c.jobs[job] == nil {
		c.jobs[job] = &record{outcomes: map[time.Time][]string{}}
	}
	return c.jobs[job]
}

// outcomes returns how the instants of a job ended.
func (c *cluster) outcomes(job string) map[time.Time][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of(job).outcomes)
}

// ledger is one daemon's way to the cluster.
type ledger struct {
	*cluster
	name string

	out  chan struct{} // closed when ZooKeeper answers
	gone bool          // the process was killed
	errs int           // this many requests fail at once
	far  time.Duration // how long each request takes
}

func (c *cluster) daemon(name string) *ledger {
	l := &ledger{cluster: c, name: name, out: make(chan struct{})}
	close(l.out)
	return l
}

// down makes ZooKeeper silent until up.
func (l *ledger) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = make(chan struct{})
}

func (l *ledger) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.out)
}

// failNext makes the next n requests fail at once.
func (l *ledger) failNext(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = n
}

// takes makes each request take d.
func (l *ledger) takes(d time.Duration) *ledger {
	l.far = d
	return l
}

func (l *ledger) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.out:
	default:
		close(l.out)
	}
}

// die is kill -9 and the end of the session.
func (l *ledger) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	l.out = make(chan struct{})
}

func (l *ledger) reach(ctx context.Context) error {
	l.mu.Lock()
	out := l.out
	fail := l.errs > 0
	l.errs = max(0, l.errs-1)
	l.mu.Unlock()
	time.Sleep(l.far)
	if fail {
		return errors.New("not now")
	}
	select {
	case <-out:
		return ctx.Err()
	case <-ctx.Done():
		return fmt.Errorf("ZooKeeper does not answer: %w", context.Cause(ctx))
	}
}

func (l *ledger) Claim(ctx context.Context, job string, instant time.Time, ask recipes.TickAsk) (recipes.TickClaim, error) {
	return l.claim(ctx, job, instant, ask.OnOverlap, false)
}

func (l *ledger) ClaimManual(ctx context.Context, job string, at time.Time) (recipes.TickClaim, error) {
	return l.claim(ctx, job, at, recipes.TellOverlap, true)
}

func (l *ledger) claim(ctx context.Context, job string, instant time.Time, on recipes.OnOverlap, manual bool) (recipes.TickClaim, error) {
	if err := l.reach(ctx); err != nil {
		return recipes.TickClaim{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(job)
	instant = instant.UTC()
	if !manual && !instant.After(r.last) {
		return recipes.TickClaim{Verdict: recipes.TickTaken, Last: r.last}, nil
	}
	claim := recipes.TickClaim{Verdict: recipes.TickClaimed}
	if h := r.running; h != nil && !h.owner.gone {
		if on == recipes.SkipOverlap {
			r.last = instant
			r.outcomes[instant] = append(r.outcomes[instant], "overlap")
		}
		return recipes.TickClaim{Verdict: recipes.TickOverlap, Run: h.run}, nil
	} else if h != nil {
		r.outcomes[h.run.Instant] = append(r.outcomes[h.run.Instant], "interrupted")
		claim.Interrupted = []recipes.TickRun{h.run}
	}
	if !manual {
		r.last = instant
	}
	l.ids++
	claim.Run = recipes.TickRun{Job: job, Instant: instant, Manual: manual, ID: fmt.Sprint(l.ids), Owner: l.name}
	r.running = &holding{run: claim.Run, owner: l}
	return claim, nil
}

func (l *ledger) Finish(ctx context.Context, run recipes.TickRun, end recipes.TickEnd) (finish recipes.TickFinish, err error) {
	if err := l.reach(ctx); err != nil {
		return finish, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(run.Job)
	if r.running == nil || r.running.run.ID != run.ID {
		return finish, &recipes.TickInterruptedError{Job: run.Job, Instant: run.Instant}
	}
	r.running = nil
	outcome := string(end.Outcome)
	if end.Outcome == recipes.TickSkipped {
		outcome = end.Reason
	}
	r.outcomes[run.Instant] = append(r.outcomes[run.Instant], outcome)
	return finish, nil
}

func (l *ledger) Begin(ctx context.Context, job string, first time.Time) (time.Time, error) {
	if err := l.reach(ctx); err != nil {
		return time.Time{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(job)
	if r.last.IsZero() {
		r.last = first.UTC().Add(-1)
	}
	return r.last, nil
}

func (l *ledger) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (int, error) {
	if err := l.reach(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, n := l.of(job), 0
	for _, instant := range instants {
		if instant = instant.UTC(); instant.After(r.last) {
			r.last = instant
			r.outcomes[instant] = append(r.outcomes[instant], reason)
			n++
		}
	}
	return n, nil
}

// guard grants every lock after a while, or refuses it.
type guard struct {
	mu      sync.Mutex
	wait    time.Duration // until the grant
	fail    error         // instead of a grant
	asked   []lockguard.Requirement
	skipped []lockguard.Skipped
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
		return &recipes.NotAcquiredError{Scope: r.Scope, Waited: wait}
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

func (g *guard) Observe(_ context.Context, e lockguard.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.skipped = append(g.skipped, e.(lockguard.Skipped))
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
}

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
		if err := s.Run(ctx); err != nil {
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
	j.Requirements = []lockguard.Requirement{{Scope: "db", CleanupTimeout: time.Second}}
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
