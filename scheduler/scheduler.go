package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Config says what a Scheduler works with. Only Ledger is needed.
type Config struct {
	// Begin, when set, is called at the beginning of each run, when it is claimed
	// and before it waits for its locks, and may add values to the context of all
	// that the run does, such as the span that it belongs to: what it returns must
	// derive from ctx. It returns as well what is called when it is known how the run
	// ended. See traces.Tracer.Run. Defaults to nothing.
	Begin func(ctx context.Context, job string, run ticks.Run) (context.Context, func(ticks.End))

	// Drain says how the scheduler ends.
	Drain Drain

	// Guard takes the locks that jobs need; *lockguard.Guard does. May be nil
	// when no job needs one.
	Guard Guard

	// Lateness is how late a tick may be decided although the next one is due
	// already, so that a short pause, or the clock of another daemon, loses no
	// ticks of jobs that run every few seconds. Negative: not at all.
	// Defaults to 5s.
	Lateness time.Duration

	// Ledger decides who runs a tick; *ticks.Ledger does.
	Ledger Ledger

	// Logger gets a line for each run and each skipped tick. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Now is the clock of this machine, for tests of clocks that differ. Schedules
	// are read by it as long as it is not further ahead of ZooKeeper's than
	// ticks.Tolerance, else by ZooKeeper's, and that much. Defaults to
	// time.Now.
	Now func() time.Time

	// Overrides, when set, knows the operators' overrides that pause jobs: ticks
	// are skipped meanwhile, and those that wait stay. Of several daemons the one
	// that decides a tick asks its own. Defaults to none.
	Overrides Overrides

	// Spread, when set, gives each job to one daemon: that one alone asks the
	// ledger for its ticks, and when it is gone another one goes on. See
	// SpreadOver. The ledger still decides every tick, so that two daemons that
	// believe that they own a job run no tick twice. Defaults to nil: every daemon
	// asks for every tick.
	Spread Spreader

	// SpreadStrategy is the strategy of the spread, as group.Spec has it.
	// Defaults to balanced.
	SpreadStrategy string
}

// Guard is what a Scheduler needs of a *lockguard.Guard.
type Guard interface {
	jobs.Guard
	Observe(ctx context.Context, event lockguard.Event)
}

// Overrides knows the operators' overrides that are in force.
type Overrides interface {
	// Paused returns the override that pauses a job, nil if none does, and a
	// channel that is closed when that may have changed, for whatever reason: also
	// because the override has ended. It must not block.
	Paused(job string, labels map[string]string) (*override.Override, <-chan struct{})
}

// Ledger is what a Scheduler needs of a *ticks.Ledger.
type Ledger interface {
	Begin(ctx context.Context, job string, first time.Time) (after time.Time, err error)
	Claim(ctx context.Context, job string, instant time.Time, ask ticks.Ask) (ticks.Claim, error)
	ClaimManual(ctx context.Context, job string, at time.Time) (ticks.Claim, error)
	ClaimRequest(ctx context.Context, request ticks.Request, most int) (ticks.Claim, error)
	ClaimWaiting(ctx context.Context, job string, most int) (ticks.Claim, error)
	Finish(ctx context.Context, run ticks.Run, end ticks.End) (ticks.Finish, error)
	AwaitCancel(ctx context.Context, run ticks.Run) (by time.Time, err error)
	AwaitRequests(ctx context.Context, seen ticks.Requests) (ticks.Requests, error)
	RecordMissed(ctx context.Context, job, reason string, span ticks.Span) (recorded bool, decided time.Time, err error)
	RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (recorded int, err error)
	State(ctx context.Context, job string) (ticks.State, error)

	// ServerTime is the clock of ZooKeeper, as far as it is known; it must not
	// block. No tick comes due before AwaitServerTime has returned.
	ServerTime() (now zkclient.ServerTime, ok bool)
	AwaitServerTime(ctx context.Context) error
}

var (
	_ Guard  = (*lockguard.Guard)(nil)
	_ Ledger = (*ticks.Ledger)(nil)
)

// A Scheduler runs jobs at their instants, each once in the cluster. It runs
// once: after Run has returned it is done for.
//
// Schedules are read by the earlier one of two clocks: the machine's, and that of
// ZooKeeper's leader and [ticks.Tolerance] more. So a daemon whose clock is
// ahead takes no tick from the others, and one whose clock is behind is late
// with those that no other daemon runs. Both say so in their logs. The ledger
// refuses an instant that is in the future of ZooKeeper's clock; the tick then
// waits.
//
// A job that is new to the cluster begins with the first tick that comes due in
// any daemon. When several are started at once and their clocks differ, that
// may be one that is still to come on the clocks that are behind: what these
// show before it is no tick of the job, and counts as taken. From the first
// tick on there is no gap.
//
// Limits. A daemon that may not ask for ZooKeeper's clock goes by its own until it
// has claimed something. One that was suspended, or cut off from ZooKeeper, for
// longer than [Config.Lateness] may record as missed or undecided what daemons whose
// clocks are behind would have run a moment later. The overlap of runs is excluded as
// long as their sessions live: a run that has lost its session goes on if its job
// needs no lock, and the next tick may start beside it; only a lock, and its
// token, exclude that. A retry and a preempted run that begins anew are the same
// tick: the work has to bear being begun twice.
type Scheduler struct {
	cfg Config
	log *slog.Logger

	firing     context.Context // ends when the drain begins
	stopFiring context.CancelFunc
	work       context.Context // of all runs; ends with lockguard.ErrShutdown
	stopWork   context.CancelCauseFunc
	deciding   sync.WaitGroup // lanes with something to do
	running    sync.WaitGroup // runs, until they are recorded
	hurries    chan struct{}  // Hurry
	line       *line
	clock      *runner
	steps      atomic.Uint64 // of the clock
	respread   chan struct{} // the jobs have changed
	added      chan struct{} // some of them are new

	reconciling sync.Mutex // held while lanes are opened and closed

	gate   sync.Mutex // a lane may hold its own lock when it takes this one
	closed bool       // no lane begins to decide any more

	watch clockWatch

	mu      sync.Mutex // before that of a lane
	started bool
	opened  bool // lanes are open
	stopped bool
	lanes   map[string]*lane
	runs    map[*run]struct{}
}

// New validates cfg.
func New(cfg Config) (*Scheduler, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("scheduler: Config.Ledger is nil; give the TickLedger of a lock.Client")
	}
	cfg.Drain = cfg.Drain.withDefaults()
	cfg.Lateness = max(0, cmp.Or(cfg.Lateness, 5*time.Second))
	s := &Scheduler{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()),
		lanes: make(map[string]*lane), runs: make(map[*run]struct{}),
		hurries: make(chan struct{}, maxHurries), respread: make(chan struct{}, 1), added: make(chan struct{}, 1),
	}
	s.line = newLine(cfg.Ledger)
	s.cfg.Ledger = s.line
	s.clock = newRunner(s.stepped)
	s.clock.wall, s.clock.machine = s.now, s.machine
	s.clock.add(s.watchClock)
	s.firing, s.stopFiring = context.WithCancel(context.Background())
	s.work, s.stopWork = context.WithCancelCause(context.Background())
	return s, nil
}

// Add adds a job, before Run. It returns everything that is wrong with it,
// joined: see jobs.Job.Validate and ParseJob. A job without a schedule, or with
// the schedule manual, runs through RunNow and by request alone.
func (s *Scheduler) Add(job jobs.Job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return ErrStarted
	}
	def, err := s.define(job)
	if _, taken := s.lanes[job.Name]; taken {
		err = errors.Join(err, errors.New("another job has this name; choose another one"))
	}
	if err != nil {
		return fmt.Errorf("job %q: %w", job.Name, err)
	}
	s.lanes[job.Name] = newLane(s, def)
	return nil
}

// Run fires the ticks of all jobs until ctx ends, and then drains: see Drain.
//
// The error is nil; ErrStarted; an *AbandonedError; or says why jobs cannot be
// spread: then all jobs are drained as well.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.cfg.Spread != nil {
		if err := s.spreadProblem(s.definitions()); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return ErrStarted
	}
	s.started = true
	s.mu.Unlock()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	var refused error
	beside.Go(s.serveRequests)
	s.awaitServerTime(ctx) // by which it is said what is due
	s.open()
	if s.cfg.Spread != nil {
		beside.Go(func() {
			if refused = s.spread(); refused != nil {
				stop()
			}
		})
	}
	s.clock.start()
	<-ctx.Done()
	s.clock.stop()
	abandoned := s.drain()
	beside.Wait()
	return errors.Join(refused, abandoned)
}

// Alive reports whether the loop that fires ticks still runs: false when it has
// stood still for 15 seconds. It is true before that loop begins, while ZooKeeper
// does not answer and while the scheduler drains. It waits for the scheduler's lock,
// so it does not return if that is never released.
func (s *Scheduler) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.turning()
}

// open begins to fire the ticks of all jobs.
func (s *Scheduler) open() {
	s.reconciling.Lock() // else a lane might be opened twice
	defer s.reconciling.Unlock()
	s.mu.Lock()
	s.opened = true
	lanes := slices.Collect(maps.Values(s.lanes))
	s.mu.Unlock()
	for _, l := range lanes {
		l.open()
	}
	s.log.Info("scheduler started", "jobs", len(lanes))
}

// stepped is called when the machine's clock, or the machine, has jumped. All
// schedules are looked at again by then.
func (s *Scheduler) stepped(by time.Duration) {
	s.steps.Add(1)
	s.log.Warn("the clock has jumped, or the machine was suspended; what is due is planned anew",
		"by", by.Round(time.Millisecond))
}

// ClockSteps returns how often the clock has jumped, or the machine was
// suspended, since Run.
func (s *Scheduler) ClockSteps() uint64 { return s.steps.Load() }

// RunNow runs a job once, by hand, and returns its error. No tick of its
// schedule is taken by it, but a tick that comes due meanwhile is an overlap, and
// while the job runs already, anywhere, the error is an *OverlapError. It runs a
// job that is paused, too. Without an acquire timeout of its own the job waits
// for its lock as long as ctx lives. The end of ctx interrupts it.
func (s *Scheduler) RunNow(ctx context.Context, name string) error {
	s.mu.Lock()
	l, ok := s.lanes[name]
	if !ok {
		s.mu.Unlock()
		return &UnknownJobError{Job: name}
	}
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
	if claim.Verdict != ticks.Claimed {
		return &OverlapError{Run: claim.Run}
	}
	s.mu.Lock()
	r.tick = claim.Run
	s.mu.Unlock()
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

// laneOf returns the lane of a job, nil if there is none.
func (s *Scheduler) laneOf(job string) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lanes[job]
}
