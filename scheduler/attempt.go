package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// tryUntilDone runs attempts until one ends as the policies of the job want a
// run to end, and returns the error of that one.
func (r *run) tryUntilDone(about jobs.Run, patience *time.Duration) error {
	pauses := r.pauses()
	for failures := 0; r.wait(); {
		a := &attempt{run: r}
		err := a.do(about, patience)
		switch {
		case err != nil && !a.worked && r.hasWorked(): // it was to be tried again, and could not
			if r.isOver() {
				return r.lastly
			}
			return errors.Join(r.lastly, err)
		case err == nil, r.isOver():
			return err
		case a.worked && isPreemption(err) && r.def.OnPreempt.Then == jobs.PreemptedRequeue:
			about.Logger.InfoContext(r.ctx, "preempted: waiting for the lock again",
				"preemptions", r.countPreemption(err), "error", err)
			patience = r.freshPatience(patience)
		case a.worked && r.isFailure(err) && failures < r.def.Retry.Max:
			failures++
			pause := r.pauseAfter(err, pauses.NextBackOff())
			about.Logger.WarnContext(r.ctx, "attempt failed: trying again", "attempt", failures, "of", 1+r.def.Retry.Max,
				"pause", pause.Round(time.Millisecond), "error", err)
			if !r.pause(pause) {
				return err
			}
			patience = r.freshPatience(patience)
		default:
			return err
		}
		r.lastly = err
	}
	return r.lastly
}

func (r *run) pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = r.def.Retry.Initial, r.def.Retry.MaxInterval, 2
	b.Reset()
	return b
}

// pauseAfter is as long as the work asks for, within the limit of the job.
func (r *run) pauseAfter(err error, pause time.Duration) time.Duration {
	if busy, ok := errors.AsType[*jobs.StatusError](err); ok {
		return max(pause, min(busy.RetryAfter, r.def.Retry.MaxInterval))
	}
	return pause
}

// pause reports false when the run has to end instead.
func (r *run) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !r.isOver()
	case <-r.ctx.Done():
	case <-r.lane.s.firing.Done():
	}
	return false
}

// isOver reports whether no attempt may begin any more.
func (r *run) isOver() bool { return r.ctx.Err() != nil || r.lane.s.isDraining() }

func (r *run) hasWorked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.working
}

func (r *run) countPreemption(err error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.preemptions++
	if priority.PreemptionOf(err).Kind == priority.KindOverridden {
		r.overridden++
	}
	return r.preemptions
}

// isFailure reports whether it is the work's own fault: not that its lock, or
// the scheduler, had to stop.
func (r *run) isFailure(err error) bool {
	return !priority.CauseOf(err).Kind.EndsHold() && !errors.Is(err, lockguard.ErrShutdown)
}

// patience is how long the run waits for its locks: until just before the next
// tick, so that its end is recorded by then.
func (r *run) patience() time.Duration {
	l := r.lane
	if l.s.isDraining() {
		return 0
	}
	now := l.s.now()
	tick := now
	if !r.tick.Manual && r.tick.Instant.After(now) {
		tick = r.tick.Instant
	}
	next, ok := r.def.next(tick)
	if !ok {
		return forEver
	}
	lead := l.moment(r.def, next)
	return max(r.def.due(next).Sub(now)-lead, lead)
}

const forEver = 1 << 62

// freshPatience is that of a further attempt, where there is one at all.
func (r *run) freshPatience(patience *time.Duration) *time.Duration {
	if patience == nil {
		return nil
	}
	return new(r.patience())
}

// An attempt is one try of a run: the locks, and the work under them.
type attempt struct {
	run       *run
	began     time.Time
	worked    bool
	completed bool  // the work has returned by itself
	result    error // what it has returned then
}

func (a *attempt) do(about jobs.Run, patience *time.Duration) error {
	r := a.run
	a.began = time.Now()
	bound, hooks := r.def.Bind(about)
	work := func(ctx context.Context) error { return a.work(ctx, bound) }
	if len(r.def.Requirements) == 0 {
		return withCause(r.ctx, work(r.ctx))
	}
	for i, hook := range hooks {
		hooks[i] = func(ctx context.Context) error {
			if a.completed {
				return nil // only the hold was cut short
			}
			return hook(ctx)
		}
	}
	err := r.lane.s.cfg.Guard.DoAll(r.ctx, r.requirements(patience), work, hooks...)
	if a.completed {
		return a.result // under the lock, whatever became of that later
	}
	return err
}

// withCause adds to the error of work why its context has ended, as a guard
// does for work under a lock: most work says no more than context.Canceled.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

// work is what the guard runs.
func (a *attempt) work(ctx context.Context, bound func(context.Context) error) error {
	r := a.run
	r.mu.Lock()
	if ctx.Err() != nil {
		r.mu.Unlock()
		return context.Cause(ctx)
	}
	begin := time.Now()
	r.working, r.waiting, a.worked = true, false, true
	r.waitedFor += begin.Sub(a.began)
	if hold, ok := lockguard.FromContext(ctx); ok {
		r.token, r.tokens, r.trace = hold.Token(), hold.Tokens(), hold.Trace()
	}
	r.mu.Unlock()

	watch := r.watchForStuck(ctx)
	err := apart(func() error { return bound(ctx) })
	watch.end()

	r.mu.Lock()
	r.took += time.Since(begin)
	if !isPreemption(err) && !isPreemption(context.Cause(ctx)) {
		r.attempts++
	}
	r.mu.Unlock()
	if ctx.Err() == nil && r.def.HoldAtLeast > 0 {
		a.completed, a.result = true, err
		a.keepHold(ctx, begin.Add(r.def.HoldAtLeast))
	}
	return err
}

// errGoexit is how work fails that does not return.
var errGoexit = errors.New("the work has ended its goroutine (runtime.Goexit) and did not return")

// apart calls work in a goroutine of its own: should it end that, the run ends
// and is recorded all the same.
func apart(work func() error) error {
	err := errGoexit
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = work()
	}()
	<-done
	return err
}

// keepHold returns when the lock was held long enough, or has to be given away.
func (a *attempt) keepHold(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-a.run.lane.s.firing.Done():
	}
}

// requirements returns the locks that the job needs. patience is the acquire
// timeout if none of them has one: the shortest counts for all. Once the run was
// preempted as often as it may, only the end of its lease ends its hold; what
// operators' overrides do does not count.
func (r *run) requirements(patience *time.Duration) []lockguard.Requirement {
	all := r.def.Owned()
	if p := r.def.OnPreempt; p.Then == jobs.PreemptedRequeue && r.preemptions-r.overridden >= p.MaxPreemptions {
		for i := range all {
			all[i].Terms = all[i].UntilLeaseEnds()
		}
	}
	if slices.ContainsFunc(all, func(r lockguard.Requirement) bool { return r.AcquireTimeout != nil }) {
		return all
	}
	if patience != nil && *patience != forEver {
		for i := range all {
			all[i].AcquireTimeout = patience
		}
	}
	return all
}

// blamed returns the lock that err is about, else the first that the job needs;
// it has one.
func (d *definition) blamed(err error) lockguard.Requirement {
	all, scope := d.Owned(), priority.CauseOf(err).Scope
	if i := slices.IndexFunc(all, func(r lockguard.Requirement) bool { return r.Scope == scope }); i >= 0 {
		return all[i]
	}
	return all[0]
}
