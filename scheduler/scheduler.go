package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Config says what a Scheduler works with. Only Ledger is needed.
type Config struct {
	// DrainTimeout is how long the runs that go on when the scheduler stops
	// may take to end by themselves. After it their contexts are cancelled.
	// Negative: at once. Defaults to 30s.
	DrainTimeout time.Duration

	// Guard takes the locks that jobs need; *lockguard.Guard does. May be nil
	// when no job needs one.
	Guard Guard

	// Lateness is how late a tick may be decided although the next one is due
	// already, so that a short pause, or the clock of another daemon, loses no
	// ticks of jobs that run every few seconds. Negative: not at all.
	// Defaults to 5s.
	Lateness time.Duration

	// Ledger decides who runs a tick; *recipes.TickLedger does.
	Ledger Ledger

	// Logger gets a line for each run and each skipped tick. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Now is the clock that schedules are read by, for tests of clocks that
	// differ. Defaults to time.Now.
	Now func() time.Time

	// Spread, when set, gives each job to one daemon: that one alone asks the
	// ledger for its ticks, and when it is gone another one goes on. See
	// SpreadOver. Defaults to nil: every daemon asks for every tick.
	Spread Spreader

	// SpreadStrategy is the strategy of the spread, as recipes.GroupSpec has it.
	// Defaults to balanced.
	SpreadStrategy string
}

// Guard is what a Scheduler needs of a *lockguard.Guard.
type Guard interface {
	jobs.Guard
	Observe(ctx context.Context, event lockguard.Event)
}

// Ledger is what a Scheduler needs of a *recipes.TickLedger.
type Ledger interface {
	Begin(ctx context.Context, job string, first time.Time) (after time.Time, err error)
	Claim(ctx context.Context, job string, instant time.Time, ask recipes.TickAsk) (recipes.TickClaim, error)
	ClaimManual(ctx context.Context, job string, at time.Time) (recipes.TickClaim, error)
	Finish(ctx context.Context, run recipes.TickRun, end recipes.TickEnd) (recipes.TickFinish, error)
	RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (recorded int, err error)
}

var (
	_ Guard  = (*lockguard.Guard)(nil)
	_ Ledger = (*recipes.TickLedger)(nil)
)

// ErrStarted is returned by Add and Run after Run.
var ErrStarted = errors.New("scheduler: it has been started; add all jobs first, and start it once")

// ErrStopped is returned by RunNow while the scheduler does not run: before
// Run, and from the moment it drains.
var ErrStopped = errors.New("scheduler: it is not running")

// UnknownJobError is returned by RunNow for a name that no job has.
type UnknownJobError struct{ Job string }

func (e *UnknownJobError) Error() string { return fmt.Sprintf("scheduler: no job is named %q", e.Job) }

// OverlapError is returned by RunNow for a job that runs already, perhaps in
// another daemon.
type OverlapError struct{ Run recipes.TickRun }

func (e *OverlapError) Error() string {
	return fmt.Sprintf("job %q runs already: by %q on %s (pid %d) since %s; wait for its end",
		e.Run.Job, e.Run.Owner, e.Run.Host, e.Run.PID, e.Run.ClaimedAt.Format(time.RFC3339))
}

// A Scheduler runs jobs at their instants, each once in the cluster. It runs
// once: after Run has returned it is done for.
type Scheduler struct {
	cfg   Config
	log   *slog.Logger
	lanes map[string]*lane

	firing     context.Context // ends when the drain begins
	stopFiring context.CancelFunc
	work       context.Context // of all runs; ends with lockguard.ErrShutdown
	stopWork   context.CancelCauseFunc
	running    sync.WaitGroup // runs, until they are recorded

	mu      sync.Mutex
	started bool
	stopped bool
	runs    map[*run]struct{}
}

// New validates cfg.
func New(cfg Config) (*Scheduler, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("scheduler: Config.Ledger is nil; give the TickLedger of a recipes.Client")
	}
	cfg.DrainTimeout = max(0, cmp.Or(cfg.DrainTimeout, 30*time.Second))
	cfg.Lateness = max(0, cmp.Or(cfg.Lateness, 5*time.Second))
	s := &Scheduler{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()),
		lanes: make(map[string]*lane), runs: make(map[*run]struct{}),
	}
	s.firing, s.stopFiring = context.WithCancel(context.Background())
	s.work, s.stopWork = context.WithCancelCause(context.Background())
	return s, nil
}

// Add adds a job, before Run. It returns everything that is wrong with it,
// joined: see jobs.Job.Validate and Parse. A job without a schedule, or with
// the schedule manual, runs through RunNow alone.
func (s *Scheduler) Add(job jobs.Job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return ErrStarted
	}
	schedule, err := ParseJob(job)
	problems := []error{job.Validate(), err}
	if _, taken := s.lanes[job.Name]; taken {
		problems = append(problems, errors.New("another job has this name; choose another one"))
	}
	if len(job.Requirements) > 0 && s.cfg.Guard == nil {
		problems = append(problems, errors.New("it needs a lock, but Config.Guard is nil"))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("job %q: %w", job.Name, err)
	}
	s.lanes[job.Name] = newLane(s, job, schedule)
	return nil
}

// Run fires the ticks of all jobs until ctx ends, and then drains: it fires no
// more; ends at once what still waits for its lock; waits DrainTimeout for the
// runs to end by themselves; cancels the others with the cause
// lockguard.ErrShutdown, so that they clean up and release; and returns when
// all have. Work that ignores its context therefore holds up Run.
//
// The error is nil, ErrStarted, or says why jobs cannot be spread: then all jobs
// are drained as well.
func (s *Scheduler) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return ErrStarted
	}
	if s.cfg.Spread != nil {
		if err := s.spreadProblem(); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	s.started = true
	s.mu.Unlock()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var spreading sync.WaitGroup
	var refused error
	if s.cfg.Spread != nil {
		spreading.Go(func() {
			if refused = s.spread(); refused != nil {
				stop()
			}
		})
	}
	clock := newRunner(s.clockStepped)
	var deciding sync.WaitGroup
	for _, l := range s.lanes {
		if l.schedule == Manual() {
			continue
		}
		feed := &feed{job: l.job.Name, schedule: l.schedule, jitter: l.job.Jitter, skew: s.skew, emit: l.push, dropped: l.dropped}
		clock.add(feed.next)
		deciding.Go(l.loop)
	}
	clock.start()
	s.log.Info("scheduler started", "jobs", len(s.lanes))

	<-ctx.Done()
	clock.stop()
	s.drain(&deciding)
	spreading.Wait()
	return refused
}

func (s *Scheduler) drain(deciding *sync.WaitGroup) {
	s.stopFiring() // first: a run that begins from here on does not wait for its lock
	s.mu.Lock()
	s.stopped = true
	for r := range s.runs {
		r.endIfWaiting()
	}
	s.mu.Unlock()
	going, _ := s.unfinished()
	s.log.Info("scheduler stops: no tick is fired any more", "runs", len(going), "drain_timeout", s.cfg.DrainTimeout)

	done := make(chan struct{})
	go func() {
		deciding.Wait() // the last claims may still begin a run
		s.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(s.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.tellOverdue()
		s.stopWork(lockguard.ErrShutdown)
		<-done
	}
	s.stopWork(lockguard.ErrShutdown)
	s.log.Info("scheduler stopped")
}

// RunNow runs a job once, by hand, and returns its error. No tick of its
// schedule is taken by it, but a tick that comes due meanwhile is an overlap, and
// while the job runs already, anywhere, the error is an *OverlapError. Without
// an acquire timeout of its own the job waits for its lock as long as ctx
// lives. The end of ctx interrupts it.
func (s *Scheduler) RunNow(ctx context.Context, name string) error {
	l, ok := s.lanes[name]
	if !ok {
		return &UnknownJobError{Job: name}
	}
	s.mu.Lock()
	if !s.started || s.stopped {
		s.mu.Unlock()
		return ErrStopped
	}
	r := s.beginLocked(ctx, l)
	s.mu.Unlock()
	defer s.end(r)
	claim, err := s.cfg.Ledger.ClaimManual(r.ctx, name, s.now())
	if err != nil {
		return err
	}
	if claim.Verdict != recipes.TickClaimed {
		return &OverlapError{Run: claim.Run}
	}
	r.tick = claim.Run
	return r.do(nil)
}

// beginLocked registers a run, so that the drain knows it.
func (s *Scheduler) beginLocked(ctx context.Context, l *lane) *run {
	r := newRun(ctx, l)
	s.runs[r] = struct{}{}
	s.running.Add(1)
	return r
}

func (s *Scheduler) end(r *run) {
	s.mu.Lock()
	delete(s.runs, r)
	s.mu.Unlock()
	r.release()
	s.running.Done()
}

// tellOverdue logs what the drain has waited for in vain.
func (s *Scheduler) tellOverdue() {
	running, unrecorded := s.unfinished()
	if len(running) > 0 {
		s.log.Warn("drain timeout is over: cancelling what still runs", "jobs", running)
	}
	if len(unrecorded) > 0 {
		s.log.Warn("drain timeout is over: ZooKeeper has not confirmed the end of runs yet; trying a little longer",
			"jobs", unrecorded, "at_most", drainRecord)
	}
	if len(running)+len(unrecorded) == 0 {
		s.log.Warn("drain timeout is over: nothing runs, but ZooKeeper has not answered the last requests yet; waiting a little longer")
	}
}

// unfinished returns the jobs that work here now, and those that have worked
// but whose end is not recorded yet.
func (s *Scheduler) unfinished() (running, unrecorded []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.runs {
		working, worked := r.progress()
		switch name := r.lane.job.Name; {
		case worked:
			unrecorded = append(unrecorded, name)
		case working:
			running = append(running, name)
		}
	}
	slices.Sort(running)
	slices.Sort(unrecorded)
	return running, unrecorded
}

func (s *Scheduler) isDraining() bool { return s.firing.Err() != nil }

// --- the clock ----------------------------------------------------------------

// now is the time that schedules are read by.
func (s *Scheduler) now() time.Time {
	if s.cfg.Now == nil {
		return time.Now()
	}
	return s.cfg.Now()
}

// skew is how far that is ahead of the machine's clock.
func (s *Scheduler) skew() time.Duration {
	if s.cfg.Now == nil {
		return 0
	}
	return time.Until(s.cfg.Now())
}

// clockStepped is told when the machine's clock was set, or the machine slept.
func (s *Scheduler) clockStepped(by time.Duration) {
	if by > 0 {
		s.log.Warn("the clock went forward, or the machine was suspended: all schedules are read anew", "by", by.Round(time.Millisecond))
		return
	}
	s.log.Warn("the clock was put back: all schedules are read anew, and no tick comes twice", "by", -by.Round(time.Millisecond))
}

// drainClaim is how long a claim that was under way when the drain began may
// still take to be decided.
const drainClaim = 2 * time.Second

// until returns a context that ends at an instant of the schedule's clock, and
// soon after the drain has begun.
func (s *Scheduler) until(deadline time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline.Sub(s.now()))
	return ctx, s.endWithDrain(cancel, drainClaim)
}

// endWithDrain calls cancel some time after the drain has begun. The returned
// function calls it now.
func (s *Scheduler) endWithDrain(cancel context.CancelFunc, after time.Duration) context.CancelFunc {
	stop := context.AfterFunc(s.firing, func() { time.AfterFunc(after, cancel) })
	return func() {
		stop()
		cancel()
	}
}
