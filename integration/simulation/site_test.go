package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// plan says what a site is like.
type plan struct {
	daemons, jobs int
	copies        int    // daemons that have each job: the first that claims a tick runs it
	schedule      string // of a job; H makes its instants its own
	jitter        time.Duration
	ownLock       int           // one in so many jobs needs an uncontended lock; 0: none
	sharedLock    int           // one in so many jobs wants a lock that nine others want at the same second; 0: none
	window        time.Duration // in which ticks are counted
	starts        time.Duration // between two daemons that start
	ensemble      *Ensemble
}

// The kinds of jobs.
const (
	plain = iota
	own
	shared
	kinds
)

func (p plan) kind(job int) int {
	switch {
	case p.sharedLock > 0 && job%p.sharedLock == 1:
		return shared
	case p.ownLock > 0 && job%p.ownLock == 0:
		return own
	}
	return plain
}

const (
	settle     = 30 * time.Second
	sharedWork = 20 * time.Millisecond
	inOneScope = 10
)

// A site is what runs.
type site struct {
	t    *testing.T
	plan plan
	zk   *zktest.Server
	from time.Time // of the window
	to   time.Time

	daemons []*daemon
	ticks   []tally
	inside  []atomic.Int32 // shared scopes
	faults  atomic.Int64   // two inside

	preempted atomic.Int64
	mu        sync.Mutex
	late      [kinds][]time.Duration
}

// A tally counts the runs of one job.
type tally struct {
	mu   sync.Mutex
	last time.Time
	runs int // in the window
	bad  int // of an instant that is not later than the last one
}

type daemon struct {
	client    *lock.Client
	guard     *lockguard.Guard
	scheduler *scheduler.Scheduler
	done      chan error
}

// A report is what came of it.
type report struct {
	plan
	ticks, expected    int
	doubled            int
	load               Load // in the window
	begin              Load // until all had begun
	late               [kinds][]time.Duration
	daemonKB, jobBytes float64
	goroutines         int
	preempted          int64
	took               time.Duration // virtual, until all had begun
	faults             int64
}

// simulate runs a site, in a bubble.
func simulate(t *testing.T, p plan) report {
	t.Helper()
	s := &site{t: t, plan: p, ticks: make([]tally, p.jobs), inside: make([]atomic.Int32, p.jobs/inOneScope+1)}
	empty := memory()
	s.zk = zktest.RunT(t, zktest.Pipe(), zktest.SessionTimeouts(time.Second, time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range p.daemons {
		s.connect(i)
	}
	connected := memory()
	start := time.Now()
	s.from = start.Add(time.Duration(p.daemons)*p.starts + settle).Truncate(time.Second).Add(time.Second / 2)
	s.to = s.from.Add(p.window)
	for i, d := range s.daemons {
		s.addJobs(i, d)
		go func() { d.done <- d.scheduler.Run(ctx) }()
		<-time.After(p.starts)
	}
	r := report{plan: p, begin: p.ensemble.Load(), took: time.Since(start)}
	<-time.After(time.Until(s.from))
	running := memory()
	r.goroutines = runtime.NumGoroutine()
	r.daemonKB = float64(connected-empty) / float64(p.daemons) / 1024
	r.jobBytes = float64(running-connected) / float64(p.jobs)
	before := p.ensemble.Load()
	<-time.After(p.window)
	after := p.ensemble.Load()
	r.load = Load{after.Reads - before.Reads, after.Writes - before.Writes, after.Pings - before.Pings}
	<-time.After(3*time.Second + p.jitter) // what was due is under way, or has been
	stop()
	s.end()
	s.collect(&r)
	return r
}

// memory is what lives, in bytes: heap and stacks.
func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func (s *site) connect(i int) {
	name := fmt.Sprintf("daemon-%04d", i)
	client, err := lock.NewClient(lock.Config{
		Dialer: s.plan.ensemble.Through(s.zk.Dialer(name)), SessionTimeout: 15 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s.t, err)
	require.NoError(s.t, client.Ready(s.t.Context()))
	guard, err := lockguard.New(client, lockguard.WithOwner(name), lockguard.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(s.t, err)
	d := &daemon{client: client, guard: guard, done: make(chan error, 1)}
	d.scheduler, err = scheduler.New(scheduler.Config{Guard: guard, Ledger: client.TickLedger(name), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s.t, err)
	s.daemons = append(s.daemons, d)
}

// addJobs gives a daemon its part of the jobs: job j is on the daemon j, and on
// others as far from it as j says.
func (s *site) addJobs(i int, d *daemon) {
	p := s.plan
	for copies := range p.copies {
		for round := range (p.jobs + p.daemons - 1) / p.daemons {
			shift := 0
			if copies > 0 {
				shift = copies + round%max(1, p.daemons-p.copies)
			}
			if j := round*p.daemons + (i+p.daemons-shift%p.daemons)%p.daemons; j < p.jobs {
				require.NoError(s.t, d.scheduler.Add(s.job(j)))
			}
		}
	}
}

func (s *site) job(j int) jobs.Job {
	kind := s.plan.kind(j)
	job := jobs.Job{
		Name: fmt.Sprintf("job-%07d", j), Schedule: s.plan.schedule, Jitter: s.plan.jitter,
		Work: jobs.Func(func(ctx context.Context, run jobs.Run) error { return s.run(ctx, j, kind, run) }),
	}
	switch kind {
	case own:
		job.Requirements = []lockguard.Requirement{{Scope: fmt.Sprintf("own/%07d", j)}}
	case shared:
		job.Schedule, job.Jitter = "0 * * * * *", 0
		job.Requirements = []lockguard.Requirement{{Scope: fmt.Sprintf("shared/%07d", s.scope(j)), Terms: priority.Terms{Priority: priority.Level(10 * (j / s.plan.sharedLock % 3))}}}
	}
	return job
}

// scope numbers the scope of a job that shares it.
func (s *site) scope(j int) int { return j / s.plan.sharedLock / inOneScope }

// run is the work of all jobs.
func (s *site) run(ctx context.Context, j, kind int, run jobs.Run) error {
	s.begun(j, kind, run.Scheduled, time.Since(run.Due))
	if kind != shared {
		return nil
	}
	scope := &s.inside[s.scope(j)]
	if scope.Add(1) != 1 {
		s.faults.Add(1)
	}
	defer scope.Add(-1)
	select {
	case <-time.After(sharedWork):
		return nil
	case <-ctx.Done():
		if errors.As(context.Cause(ctx), new(*lockguard.PreemptedError)) {
			s.preempted.Add(1)
		}
		return context.Cause(ctx)
	}
}

func (s *site) begun(j, kind int, instant time.Time, late time.Duration) {
	t := &s.ticks[j]
	t.mu.Lock()
	if !instant.After(t.last) {
		t.bad++
	}
	t.last = instant
	counts := instant.After(s.from) && !instant.After(s.to)
	if counts {
		t.runs++
	}
	t.mu.Unlock()
	if counts {
		s.mu.Lock()
		s.late[kind] = append(s.late[kind], late)
		s.mu.Unlock()
	}
}

func (s *site) end() {
	for _, d := range s.daemons {
		require.NoError(s.t, <-d.done)
	}
	for _, d := range s.daemons {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		require.NoError(s.t, d.client.Close(ctx))
		cancel()
	}
}

// collect compares what ran with what the schedules say.
func (s *site) collect(r *report) {
	r.late, r.preempted, r.faults = s.late, s.preempted.Load(), s.faults.Load()
	for j := range s.ticks {
		schedule, err := scheduler.ParseJob(s.job(j))
		require.NoError(s.t, err)
		want := 0
		for tick := schedule.Next(s.from); !tick.After(s.to); tick = schedule.Next(tick) {
			want++
		}
		got := &s.ticks[j]
		r.expected += want
		r.ticks += got.runs
		r.doubled += got.bad
		if got.runs != want && !s.t.Failed() {
			s.t.Errorf("job %d ran %d ticks, want %d", j, got.runs, want)
		}
	}
	for kind := range r.late {
		slices.Sort(r.late[kind])
	}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d daemons, %d jobs, each on %d, jitter %s; model: round trip %s, flush every %s, %d writes/s at most\n",
		r.daemons, r.jobs, r.copies, r.jitter, r.ensemble.RoundTrip, r.ensemble.Flush, r.ensemble.Rate)
	fmt.Fprintf(&b, "start:   %s virtual, %d reads, %d writes\n", r.took.Round(time.Second), r.begin.Reads, r.begin.Writes)
	fmt.Fprintf(&b, "window:  %s virtual, %d ticks (%.1f/s), of them due %d, twice or out of order %d, two holders at once %d, preempted %d\n",
		r.window, r.ticks, float64(r.ticks)/r.window.Seconds(), r.expected, r.doubled, r.faults, r.preempted)
	fmt.Fprintf(&b, "load:    %.2f writes and %.2f reads a tick; %.0f writes/s, %.0f reads/s, %.0f pings/s\n", r.writesPerTick(), float64(r.load.Reads)/float64(max(1, r.ticks)),
		float64(r.load.Writes)/r.window.Seconds(), float64(r.load.Reads)/r.window.Seconds(), float64(r.load.Pings)/r.window.Seconds())
	for kind, name := range []string{"no lock", "own lock", "shared lock"} {
		if late := r.late[kind]; len(late) > 0 {
			fmt.Fprintf(&b, "late:    %-11s p50 %s  p99 %s  max %s  (%d ticks)\n", name, round(quantile(late, 0.5)), round(quantile(late, 0.99)), round(late[len(late)-1]), len(late))
		}
	}
	fmt.Fprintf(&b, "memory:  %.1f KiB a daemon without jobs, %.0f bytes a job, with its nodes in the modelled server; %.1f goroutines a daemon", r.daemonKB, r.jobBytes, float64(r.goroutines)/float64(r.daemons))
	return b.String()
}

func (r *report) writesPerTick() float64 { return float64(r.load.Writes) / float64(max(1, r.ticks)) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
