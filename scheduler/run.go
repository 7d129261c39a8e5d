package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A run is one run of a job here, from its claim until its end is recorded.
type run struct {
	lane   *lane
	tick   recipes.TickRun
	began  time.Time // on the schedule's clock
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool

	workDone chan struct{} // the work has returned, or never will begin
	done     chan struct{} // and that is recorded

	mu      sync.Mutex
	working bool
	token   lockguard.Token            // of the first lock
	tokens  map[string]lockguard.Token // of all
}

// newRun makes a run whose context derives from ctx and ends with the
// scheduler's work.
func newRun(ctx context.Context, l *lane) *run {
	r := &run{lane: l, began: l.s.now(), workDone: make(chan struct{}), done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.unlink = context.AfterFunc(l.s.work, func() { r.cancel(context.Cause(l.s.work)) })
	return r
}

func (r *run) release() {
	r.unlink()
	r.cancel(nil)
}

// endIfWaiting ends a run that does not work yet.
func (r *run) endIfWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.working {
		r.cancel(lockguard.ErrShutdown)
	}
}

// progress reports whether the work has begun, and whether it has ended.
func (r *run) progress() (begun, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.workDone:
		return r.working, r.working
	default:
		return r.working, false
	}
}

// do runs the job, records how it ended, and returns its error. patience is
// the acquire timeout if the job sets none.
func (r *run) do(patience *time.Duration) error {
	defer close(r.done)
	l := r.lane
	log := l.s.log.With("job", l.job.Name, "run", r.tick.ID)
	scheduled := r.tick.Instant
	if r.tick.Manual {
		scheduled = time.Time{}
	} else {
		log = log.With("instant", scheduled)
	}
	output := jobs.NewTail(maxOutput)
	start := time.Now()
	err := r.work(jobs.Run{
		Attempt: r.tick.ID, Job: l.job.Name, Logger: log, Scheduled: scheduled, Stdout: output, Stderr: output,
	}, patience)
	took := time.Since(start)
	close(r.workDone)

	end := r.outcome(err)
	if recordErr := r.record(end); recordErr != nil {
		log.Warn("the end of a run is not recorded", "outcome", end.Outcome, "error", recordErr)
		if errors.As(recordErr, new(*recipes.TickInterruptedError)) && end.Outcome != recipes.TickSkipped {
			end.Outcome = recipes.TickInterrupted
		}
	}
	switch {
	case end.Outcome != recipes.TickSkipped:
	case r.tick.Manual:
		log.Warn("manual run not started", "error", err)
		return err
	default:
		l.tellSkip(r.tick.ID, r.tick.Instant, SkipReason(end.Reason), err)
		return err
	}
	l.count(func(s *JobStats) { *s.counter(end.Outcome)++ })
	attrs := []any{"outcome", string(end.Outcome), "took", took.Round(time.Millisecond)}
	attrs = append(attrs, r.describeTokens()...)
	if text := output.String(); text != "" {
		attrs = append(attrs, "output", text)
	}
	level := slog.LevelInfo
	if err != nil {
		attrs = append(attrs, "error", err.Error())
		level = slog.LevelWarn
		if end.Outcome == recipes.TickFailed {
			level = slog.LevelError
		}
	}
	log.Log(context.Background(), level, "job ended", attrs...)
	return err
}

// describeTokens names each scope if there are several.
func (r *run) describeTokens() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch len(r.tokens) {
	case 0:
		return nil
	case 1:
		return []any{"token", r.token.String()}
	}
	var tokens []any
	for _, scope := range slices.Sorted(maps.Keys(r.tokens)) {
		tokens = append(tokens, slog.String(scope, r.tokens[scope].String()))
	}
	return []any{slog.Group("tokens", tokens...)}
}

// maxOutput is how much of a run's output is logged with its end.
const maxOutput = 4 << 10

func (r *run) work(about jobs.Run, patience *time.Duration) error {
	l := r.lane
	bound, hooks := l.job.Bind(about)
	work := func(ctx context.Context) error {
		r.mu.Lock()
		if err := ctx.Err(); err != nil {
			r.mu.Unlock()
			return context.Cause(ctx)
		}
		r.working = true
		if hold, ok := lockguard.FromContext(ctx); ok {
			r.token, r.tokens = hold.Token(), hold.Tokens()
		}
		r.mu.Unlock()
		return bound(ctx)
	}
	if len(l.job.Requirements) == 0 {
		return work(r.ctx)
	}
	return l.s.cfg.Guard.DoAll(r.ctx, l.requirements(patience), work, hooks...)
}

// outcome says how the run ended, given the error of the guard.
func (r *run) outcome(err error) recipes.TickEnd {
	r.mu.Lock()
	worked, token := r.working, r.token
	r.mu.Unlock()
	switch {
	case err == nil:
		return recipes.TickEnd{Outcome: recipes.TickRan, Token: token}
	case !worked:
		if reason := r.whyNotStarted(err); reason != "" {
			return recipes.TickEnd{Outcome: recipes.TickSkipped, Reason: string(reason)}
		}
	}
	end := recipes.TickEnd{Outcome: recipes.TickFailed, Reason: err.Error(), Token: token}
	switch {
	case errors.As(err, new(*lockguard.LostError)):
		end.Outcome = recipes.TickLost
	case errors.As(err, new(*lockguard.PreemptedError)), errors.As(err, new(*lockguard.LeaseExpiredError)):
		end.Outcome = recipes.TickPreempted
	case errors.Is(err, lockguard.ErrShutdown), r.ctx.Err() != nil && errors.Is(err, context.Cause(r.ctx)):
		end.Outcome = recipes.TickInterrupted
	}
	return end
}

// whyNotStarted returns "" for what is no reason to skip but a failure.
func (r *run) whyNotStarted(err error) SkipReason {
	switch {
	case errors.Is(err, lockguard.ErrShutdown):
		return SkipDraining
	case r.ctx.Err() != nil && errors.Is(err, context.Cause(r.ctx)):
		return skipCancelled
	case errors.As(err, new(*recipes.UnavailableError)):
		return SkipUnavailable
	case errors.As(err, new(*recipes.NotAcquiredError)), errors.As(err, new(*recipes.CleanupPendingError)),
		errors.As(err, new(*recipes.EvictedError)), errors.As(err, new(*lockguard.LostError)),
		errors.As(err, new(*lockguard.PreemptedError)), errors.As(err, new(*lockguard.LeaseExpiredError)):
		return SkipLock
	}
	return ""
}

// drainRecord is how long the end of a run may take to be recorded when the
// scheduler stops. What is not recorded is found interrupted by the next
// claimant.
const drainRecord = 5 * time.Second

// record tells the ledger how the run ended, until it has heard it.
func (r *run) record(end recipes.TickEnd) error {
	s := r.lane.s
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	defer s.endWithDrain(cancel, drainRecord)()
	for pause := newBackoff(); ; {
		_, err := s.cfg.Ledger.Finish(ctx, r.tick, end)
		if err == nil || errors.As(err, new(*recipes.TickInterruptedError)) || !pause.wait(ctx) {
			return err
		}
	}
}

func (s *JobStats) counter(outcome recipes.TickOutcome) *uint64 {
	switch outcome {
	case recipes.TickRan:
		return &s.Ran
	case recipes.TickPreempted:
		return &s.Preempted
	case recipes.TickLost:
		return &s.Lost
	case recipes.TickInterrupted:
		return &s.Interrupted
	case recipes.TickFailed, recipes.TickSkipped: // what was skipped is not counted here
	}
	return &s.Failed
}
