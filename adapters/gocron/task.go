package gocron

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// Guard runs work under locks; *lockguard.Guard does.
type Guard interface {
	Do(ctx context.Context, requirement lockguard.Requirement, work func(context.Context) error,
		hooks ...lockguard.Hook) error
}

// Task returns a function for gocron.NewTask that runs work under the lock that
// requirement declares, and hooks after an interruption, still under the lock.
// The context of work is that of the hold, and derives from that of the job: it
// ends when the job is removed and when the scheduler shuts down. Give the
// scheduler a gocron.WithStopTimeout that the hooks fit in.
//
// What lockguard.Guard.Do returns is the error of the run, for listeners such as
// gocron.AfterJobRunsWithError: *lock.NotAcquiredError says that work did not
// run, because another holder has the lock.
//
// An acquire timeout that is unset is 0: a run that finds the lock held ends at
// once and preempts no holder, whatever its priority. Set one to wait, or to preempt;
// and give the job gocron.WithSingletonMode, or its runs may pile up.
//
// Shutdown ends the contexts of jobs, waits for them as long as WithStopTimeout
// says, and then unlocks with a context that has ended; our locks are released
// all the same. A panic of a task ends the program, unless a listener is there for
// it (gocron.AfterJobRunsWithPanic); with Task it becomes the error of the run.
func Task(
	guard Guard, requirement lockguard.Requirement, work func(ctx context.Context) error, hooks ...lockguard.Hook,
) func(ctx context.Context) error {
	requirement = tried(requirement)
	return func(ctx context.Context) error { return guard.Do(ctx, requirement, work, hooks...) }
}

// tried returns a requirement that does not wait unless it says so.
func tried(r lockguard.Requirement) lockguard.Requirement {
	if r.AcquireTimeout == nil {
		r.AcquireTimeout = new(time.Duration)
	}
	return r
}
