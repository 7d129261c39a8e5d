package jobs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"
)

// Work is what a Job does. Run returns soon after ctx has ended; the cause of
// ctx says why it has. While ctx is alive the lock of the job is held:
// lockguard.FromContext finds it.
//
// One Work may run several times at once, for different instants.
type Work interface {
	Run(ctx context.Context, run Run) error
}

// A Cleaner is Work that cleans up after an interruption. Cleanup is
// called after Run has returned, still under the lock, with the time that is
// left of the grace: see lockguard.Hook. Run.Cause says why Run was
// interrupted. The job's lock needs a cleanup timeout.
type Cleaner interface {
	Cleanup(ctx context.Context, run Run) error
}

// Run is one run of a Job.
type Run struct {
	// Attempt identifies the run. It is unique in the cluster.
	Attempt string

	// Cause, in a cleanup hook, is why the work was interrupted. In work it is
	// nil.
	Cause error

	// Due is when the run was to start: Scheduled and the delay that the job's
	// Jitter adds. The zero time for a run by hand.
	Due time.Time

	// Job is the name of the job.
	Job string

	// Lost, when set, is closed when what the work runs under is no longer
	// held; a Command then gets SIGKILL at once. A lock that the context carries
	// needs no Lost. Defaults to nil.
	Lost <-chan struct{}

	// Logger is for what the work has to say. Defaults to silence.
	Logger *slog.Logger

	// Scheduled is the instant of the schedule that the run is for: the zero
	// time for a run by hand.
	Scheduled time.Time

	// Stdout and Stderr take the output of the work. A Tail keeps the end of
	// it. They may be the same. Default to nowhere.
	Stdout, Stderr io.Writer
}

// Key names what the run is for, the same in all daemons and in all attempts
// at it: the job and the instant of the schedule, for example
// "nightly-2026-03-08T07:30:00Z", or the job and the Attempt of a run by hand.
// Give it to whatever should do a thing once. It is "" without either.
func (r Run) Key() string {
	switch {
	case !r.Scheduled.IsZero():
		return r.Job + "-" + r.Scheduled.UTC().Format(time.RFC3339Nano)
	case r.Attempt != "":
		return r.Job + "-" + r.Attempt
	}
	return ""
}

func (r Run) logger() *slog.Logger {
	if r.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Logger
}

// Func is a Go function as Work.
type Func func(ctx context.Context, run Run) error

// Run calls f.
func (f Func) Run(ctx context.Context, run Run) error { return f(ctx, run) }

// Validate returns an error if f is nil.
func (f Func) Validate() error {
	if f == nil {
		return errors.New("is nil; give the function that does the work")
	}
	return nil
}

// WithCleanup returns work with a cleanup hook: Work that is a Cleaner.
func WithCleanup(work Work, hook Func) Work { return cleaned{Work: work, hook: hook} }

// CleanedBy is WithCleanup with a hook of any kind: a Command, an HTTP request.
func CleanedBy(work, hook Work) Work { return cleaned{Work: work, hook: hook} }

type cleaned struct {
	Work
	hook Work
}

func (c cleaned) Cleanup(ctx context.Context, run Run) error { return c.hook.Run(ctx, run) }

// Unwrap returns the work without its hook, for those who tell what a job runs.
func (c cleaned) Unwrap() Work { return c.Work }

// Validate puts "cleanup" in front of what is wrong with the hook.
func (c cleaned) Validate() error {
	if f, ok := c.hook.(Func); c.hook == nil || ok && f == nil {
		return errors.New("has a cleanup hook that is nil; leave it out")
	}
	return errors.Join(validate(c.Work), errors.Join(within("cleanup.", validate(c.hook))...))
}

func (c cleaned) OutputLimit() int { return outputLimit(c.Work) }

func validate(work Work) error {
	if v, ok := work.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// DefaultOutput is how much of a run's output is kept when its Work does not
// say: 4 KiB.
const DefaultOutput = 4 << 10

// NewOutput returns a Tail for the output of one run of j: for Run.Stdout and
// Run.Stderr. It keeps as much as the MaxOutput of its Work says, else
// DefaultOutput.
func (j Job) NewOutput() *Tail { return NewTail(cmp.Or(outputLimit(j.Work), DefaultOutput)) }

func outputLimit(work Work) int {
	if bounded, ok := work.(interface{ OutputLimit() int }); ok {
		return bounded.OutputLimit()
	}
	return 0
}

var (
	_ Work    = Func(nil)
	_ Work    = (*Command)(nil)
	_ Work    = (*HTTP)(nil)
	_ Cleaner = cleaned{}
)
