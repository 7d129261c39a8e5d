package robfigcron

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// ErrStillWaiting is why a tick is skipped while the one before it still waits
// for the lock.
var ErrStillWaiting = errors.New("robfigcron: the tick before still waits for the lock")

// ErrUnguarded is why a Job that no JobWrapper is right around does not run.
var ErrUnguarded = errors.New("robfigcron: the job is not right inside of a JobWrapper, " +
	"so it has no lock and does not run; make JobWrapper the last of the chain")

// Guard runs work under locks; *lockguard.Guard does.
type Guard interface {
	Do(ctx context.Context, requirement lockguard.Requirement, work func(context.Context) error,
		hooks ...lockguard.Hook) error
}

// An Option changes what JobWrapper does.
type Option func(*wrapper)

// WithContext sets what the contexts of the jobs derive from. When it ends, the
// contexts of the jobs end and the jobs clean up; cron.Cron.Stop does not do
// that. Defaults to context.Background().
func WithContext(ctx context.Context) Option { return func(w *wrapper) { w.ctx = ctx } }

// WithHooks sets what runs after an interruption, still under the lock. The
// requirement must have a cleanup timeout.
func WithHooks(hooks ...lockguard.Hook) Option { return func(w *wrapper) { w.hooks = hooks } }

// WithLogger sets where skipped ticks (info) and failed runs (error) are logged.
// Defaults to slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(w *wrapper) { w.logger = logger } }

// OnSkipped is called, beside the log, for each tick that did not run because
// the lock was not acquired: with what lockguard.Guard.Acquire returns, or with
// ErrStillWaiting.
func OnSkipped(skipped func(err error)) Option { return func(w *wrapper) { w.skipped = skipped } }

// OnFailed is called, beside the log, for each run that went wrong: with what
// lockguard.Guard.Do returns. That is the error of a Job, a
// *lockguard.PanicError, and the cause of an interruption.
func OnFailed(failed func(err error)) Option { return func(w *wrapper) { w.failed = failed } }

// JobWrapper runs jobs under the lock that requirement declares. The jobs of one
// wrapper share the lock, and so exclude each other:
//
//	cron.NewChain(m, robfigcron.JobWrapper(guard, requirement)).Then(job)
//
// is m around a job that is skipped, with a line in the log, when it does not get
// its lock.
//
// An acquire timeout that is unset is 0: a tick that finds the lock held is
// skipped at once and preempts no holder, whatever its priority. Set one to wait,
// or to preempt. While a tick waits, further ticks of the job are skipped with
// ErrStillWaiting, so that no more than one goroutine of a job waits.
//
// A panic of the job ends its run, not the program: it is logged, with its
// stack, and its lock is released. A requirement that can never work is logged
// at every tick; call its Validate when the program starts.
//
// A plain cron.Job runs under the lock too, but its Run has no context: nothing
// can stop it. A preempted one keeps its lock until it returns, or until
// it is taken by force; one that has lost its lock goes on without it. That is
// logged when it returns. Such a job has no token either. Use [Job].
//
// JobWrapper has to be the last of its chain, right around the job: cron's other
// wrappers hide what they wrap, and with it the context. Then the job counts as
// a plain one.
func JobWrapper(guard Guard, requirement lockguard.Requirement, options ...Option) cron.JobWrapper {
	w := wrapper{
		guard:       guard,
		requirement: requirement,
		ctx:         context.Background(),
		logger:      slog.Default(),
		skipped:     func(error) {},
		failed:      func(error) {},
	}
	for _, option := range options {
		option(&w)
	}
	if w.requirement.AcquireTimeout == nil {
		w.requirement.AcquireTimeout = new(time.Duration)
	}
	return func(job cron.Job) cron.Job { return &guarded{wrapper: w, job: job} }
}

// Job is work that is given the context of its hold. It has to be right inside
// of a JobWrapper; else it does not run, which is logged with ErrUnguarded.
func Job(work func(ctx context.Context) error) cron.Job { return contextJob(work) }

type contextJob func(context.Context) error

// Run is called when there is no JobWrapper: work that counts on a lock must
// not run without one.
func (contextJob) Run() { slog.Default().Error("a job did not run", "error", ErrUnguarded) }

type wrapper struct {
	guard       Guard
	requirement lockguard.Requirement
	ctx         context.Context
	hooks       []lockguard.Hook
	logger      *slog.Logger
	skipped     func(error)
	failed      func(error)
}

// guarded is a job in its wrapper.
type guarded struct {
	wrapper
	job     cron.Job
	waiting atomic.Bool // a tick of it waits for the lock
}

// Run runs the job under its lock, or not at all.
func (g *guarded) Run() {
	if !g.waiting.CompareAndSwap(false, true) {
		g.skip(ErrStillWaiting)
		return
	}
	started := false
	err := g.guard.Do(g.ctx, g.requirement, func(ctx context.Context) error {
		started = true
		g.waiting.Store(false)
		return g.work(ctx)
	}, g.hooks...)
	switch {
	case !started:
		g.waiting.Store(false)
		g.skip(err)
	case err != nil:
		g.fail(err)
	}
}

func (g *guarded) work(ctx context.Context) error {
	if job, ok := g.job.(contextJob); ok {
		return job(ctx)
	}
	g.job.Run()
	return nil
}

func (g *guarded) skip(err error) {
	level := slog.LevelInfo
	if errors.As(err, new(*lockguard.RequestError)) {
		level = slog.LevelError // it will never run
	}
	g.logger.Log(g.ctx, level, "a tick is skipped: its lock was not acquired", "scope", g.requirement.Scope, "error", err)
	g.skipped(err)
}

func (g *guarded) fail(err error) {
	attributes := []any{"scope", g.requirement.Scope, "error", err}
	if panicked, ok := errors.AsType[*lockguard.PanicError](err); ok {
		attributes = append(attributes, "stack", string(panicked.Stack))
	}
	g.logger.ErrorContext(g.ctx, "a run under a lock went wrong", attributes...)
	g.failed(err)
}
