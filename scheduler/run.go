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
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A run is one run of a job here, from its claim until its end is recorded. It
// has one attempt or more.
type run struct {
	lane   *lane
	def    *definition // as it was at the beginning
	tick   ticks.Run
	waited bool      // in the buffer of the ledger
	began  time.Time // on the schedule's clock
	start  time.Time // on the machine's
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool

	lastly   error         // of the last attempt that worked, of the goroutine that runs alone
	workDone chan struct{} // the work has returned, or never will begin
	done     chan struct{} // and that is recorded

	mu          sync.Mutex
	working     bool                       // an attempt works, or has worked
	waiting     bool                       // an attempt waits for its locks
	waitedFor   time.Duration              // locks, in all attempts
	took        time.Duration              // work, in all attempts
	attempts    int                        // that worked, preempted ones apart
	preemptions int                        // of attempts that worked
	overridden  int                        // of them, for operators' overrides
	token       lockguard.Token            // of the first lock
	tokens      map[string]lockguard.Token // of all
	trace       string
}

// newRun makes a run whose context derives from ctx and ends with the
// scheduler's work.
func newRun(ctx context.Context, l *lane) *run {
	r := &run{
		lane: l, def: l.definition(), began: l.s.now(), start: time.Now(),
		workDone: make(chan struct{}), done: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.unlink = context.AfterFunc(l.s.work, func() { r.cancel(context.Cause(l.s.work)) })
	return r
}

func (r *run) release() {
	r.unlink()
	r.cancel(nil)
}

// endIfWaiting ends a run that does not work yet, or that waits for its locks
// again.
func (r *run) endIfWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.working || r.waiting {
		r.cancel(lockguard.ErrShutdown)
	}
}

// wait is called before an attempt waits for its locks. It reports false when
// the drain has begun and the run has worked already: no attempt begins then.
func (r *run) wait() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = true // from here on the drain ends it
	return !r.working || !r.lane.s.isDraining()
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
	ended := r.begin()
	log := l.s.log.With("job", r.def.Name, "run", r.tick.ID)
	about := jobs.Run{Attempt: r.tick.ID, Job: r.def.Name, Logger: log}
	if r.tick.Manual {
		log = log.With("by", r.tick.By, "why", r.tick.Why)
	} else {
		about.Scheduled, about.Due = r.tick.Instant, r.def.due(r.tick.Instant)
		log = log.With("instant", r.tick.Instant)
	}
	output := r.def.NewOutput()
	about.Logger, about.Stdout, about.Stderr = log, output, output
	superseded := r.watchForSuperseding()
	err := r.tryUntilDone(about, patience)
	close(r.workDone)
	superseded()

	end := r.outcome(err)
	finish, recordErr := r.record(end)
	if recordErr != nil {
		log.WarnContext(r.ctx, "the end of a run is not recorded", "outcome", end.Outcome, "error", recordErr)
		if errors.As(recordErr, new(*ticks.InterruptedError)) && end.Outcome != ticks.Skipped {
			end.Outcome = ticks.Interrupted
		}
	}
	ended(end)
	if p := finish.Paused; p != nil {
		log.ErrorContext(r.ctx, "job is paused", "reason", p.Reason, "until", orForever(p.Until))
	}
	if finish.Waiting > 0 {
		l.expectWaiting()
		l.poke()
	}
	if r.waited {
		l.count(func(s *JobStats) { s.FromBuffer++ })
	}
	switch {
	case end.Outcome != ticks.Skipped:
	case r.tick.Manual:
		log.WarnContext(r.ctx, "manual run not started", "error", err)
		return err
	default:
		l.tellSkip(r.ctx, r.tick.ID, r.tick.Instant, SkipReason(end.Reason), err)
		return err
	}
	l.count(func(s *JobStats) {
		*s.counter(end.Outcome)++
		s.Retries += uint64(max(0, end.Attempts-1))
		s.Preemptions += uint64(end.Preemptions)
	})
	r.logEnd(log, end, err, output)
	return err
}

// begin reports the beginning of the run. No other goroutine uses its context yet.
func (r *run) begin() (ended func(ticks.End)) {
	if begin := r.lane.s.cfg.Begin; begin != nil {
		r.ctx, ended = begin(r.ctx, r.def.Name, r.tick)
	}
	if ended == nil {
		return func(ticks.End) {}
	}
	return ended
}

func (r *run) logEnd(log *slog.Logger, end ticks.End, err error, output *jobs.Tail) {
	attrs := []any{"outcome", string(end.Outcome), "took", end.Took.Round(time.Millisecond)}
	if end.Attempts > 1 {
		attrs = append(attrs, "attempts", end.Attempts)
	}
	if end.Preemptions > 0 {
		attrs = append(attrs, "preemptions", end.Preemptions)
	}
	attrs = append(attrs, r.describeTokens()...)
	if text := output.String(); text != "" {
		attrs = append(attrs, "output", text)
	}
	level := slog.LevelInfo
	if err != nil {
		attrs = append(attrs, "error", err.Error())
		level = slog.LevelWarn
		if end.Outcome == ticks.Failed {
			level = slog.LevelError
		}
	}
	log.Log(context.WithoutCancel(r.ctx), level, "job ended", attrs...)
}

// describeTokens names each scope if there are several.
func (r *run) describeTokens() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch len(r.tokens) {
	case 0:
		return nil
	case 1:
		return []any{"token", int64(r.token)}
	}
	var tokens []any
	for _, scope := range slices.Sorted(maps.Keys(r.tokens)) {
		tokens = append(tokens, slog.Int64(scope, int64(r.tokens[scope])))
	}
	return []any{slog.Group("tokens", tokens...)}
}

// outcome says how the run ended, given the error of its last attempt.
func (r *run) outcome(err error) ticks.End {
	r.mu.Lock()
	end := ticks.End{
		Token: r.token, Took: r.took, Waited: r.waitedFor, Trace: r.trace,
		Attempts: r.attempts, Preemptions: r.preemptions,
		PauseAfter: r.def.PauseAfterFailures, PauseFor: r.def.PauseFor,
	}
	worked := r.working
	r.mu.Unlock()
	if err == nil {
		end.Outcome = ticks.Ran
		return end
	}
	if !worked {
		if reason := r.whyNotStarted(err); reason != "" {
			end.Outcome, end.Reason = ticks.Skipped, string(reason)
			if frozen, ok := errors.AsType[*lockguard.FrozenError](err); ok {
				end.Detail = "frozen by override " + frozen.Override.ID + " of " + frozen.Override.By
			}
			return end
		}
	}
	end.Outcome, end.Reason = ticks.Failed, err.Error()
	switch {
	case errors.As(err, new(*lockguard.LostError)):
		end.Outcome = ticks.Lost
	case isPreemption(err):
		end.Outcome = ticks.Preempted
	case errors.Is(err, lockguard.ErrShutdown), r.ctx.Err() != nil && errors.Is(err, context.Cause(r.ctx)):
		end.Outcome = ticks.Interrupted
	}
	return end
}

// isPreemption reports whether work was preempted because another request wanted its
// lock.
func isPreemption(err error) bool { return priority.PreemptionOf(err).Kind != "" }

// whyNotStarted returns "" for what is no reason to skip but a failure.
func (r *run) whyNotStarted(err error) SkipReason {
	switch kind := priority.CauseOf(err).Kind; {
	case errors.As(err, new(*SupersededError)):
		return SkipOverlap
	case errors.Is(err, lockguard.ErrShutdown):
		return SkipDraining
	case r.ctx.Err() != nil && errors.Is(err, context.Cause(r.ctx)):
		return skipCancelled
	case errors.As(err, new(*lock.UnavailableError)):
		return SkipUnavailable
	case kind.EndsHold(), kind.IsRefusal():
		return SkipLock
	}
	return ""
}

// drainRecord is how long the end of a run may take to be recorded when the
// scheduler stops. What is not recorded is found interrupted by the next
// claimant.
const drainRecord = 5 * time.Second

// record tells the ledger how the run ended, until it has heard it.
func (r *run) record(end ticks.End) (finish ticks.Finish, err error) {
	s := r.lane.s
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	defer s.endWithDrain(cancel, drainRecord)()
	for pause := newPace(); ; {
		finish, err = s.cfg.Ledger.Finish(ctx, r.tick, end)
		if err == nil || errors.As(err, new(*ticks.InterruptedError)) || !pause.wait(ctx) {
			return finish, err
		}
	}
}

// watchForSuperseding cancels the run when a daemon elsewhere wants a newer
// tick to take its place. The returned function ends the watch.
func (r *run) watchForSuperseding() (stop func()) {
	if r.def.Overlap.Policy != jobs.OverlapCancelOther {
		return func() {}
	}
	ctx, cancel := context.WithCancel(r.ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for pause := newPace(); ; {
			by, err := r.lane.s.cfg.Ledger.AwaitCancel(ctx, r.tick)
			switch {
			case err == nil:
				r.cancel(&SupersededError{Job: r.def.Name, By: by})
				return
			case errors.As(err, new(*ticks.InterruptedError)), !pause.wait(ctx):
				return
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}
