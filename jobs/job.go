package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
)

// A Job is work that runs again and again, under the locks that it declares.
// Name and Work have to be set; the rest has defaults a careful operator would
// choose (WithDefaults).
type Job struct {
	// Blackouts are windows in which no tick runs. Defaults to none.
	Blackouts []Blackout

	// DST says what Schedule does on the days when the clocks change.
	DST DST

	// HoldAtLeast keeps the locks that long from the grant on, also when the
	// work is done sooner, so that a late request finds them held. A
	// preemption ends it at once. Defaults to 0.
	HoldAtLeast time.Duration

	// Jitter delays each tick by up to that much, so that jobs with one
	// schedule do not start at one moment. The delay of a tick is the same in all
	// daemons, and the tick remains the instant of the schedule. Defaults to 0.
	Jitter time.Duration

	// Labels are what operators' overrides can find the job by, beside its name.
	// Requirements that have none have these.
	Labels map[string]string

	// Misfire says what becomes of ticks that were due while no daemon ran.
	Misfire Misfire

	// Name identifies the job in the whole cluster, in logs and on the command
	// line: 1 to 128 letters, digits, dots, underscores and hyphens, the first
	// a letter or a digit.
	Name string

	// OnPreempt says what becomes of a run that was preempted.
	OnPreempt OnPreempt

	// Overlap says what becomes of a tick that comes due while a run goes on.
	Overlap Overlap

	// PauseAfterFailures pauses the job in the whole cluster when that many runs
	// in a row have failed. Defaults to 0: never.
	PauseAfterFailures int

	// PauseFor is how long such a pause lasts. After it one run is tried: if it
	// fails, the job is paused again. Defaults to 0: until somebody resumes it.
	PauseFor time.Duration

	// Requirements are the locks that the work needs: none, one, or several
	// that are held together (lockguard.Guard.DoAll). Each scope may be there
	// once. One without an Owner is owned by Name.
	Requirements []lockguard.Requirement

	// Retry says how often a run that failed is tried again.
	Retry Retry

	// Schedule says when the job runs, for example "*/5 * * * *" or
	// "@every 10s". Package scheduler reads it. Empty: only by hand.
	Schedule string

	// StuckAfter is how long work may go on after its context has ended, and
	// its grace if it has one, until it is reported as stuck. Defaults to 10s.
	StuckAfter time.Duration

	// Timeout is how long one attempt may work; what it waits for its lock does
	// not count. At its end the context of the work is cancelled with cause
	// *TimeoutError. Defaults to 0: no limit.
	Timeout time.Duration

	// TimeZone is the zone that Schedule is read in, for example
	// "Europe/Berlin". Defaults to UTC.
	TimeZone string

	// Work is what runs.
	Work Work
}

// maxName is the longest name of a job, in bytes: it becomes the name of a
// znode.
const maxName = 128

// Validate returns everything that is wrong with j, joined (errors.Join); each
// problem is a *lockguard.RequestError whose field is spelt as in the
// configuration, for example "locks[0].scope". Schedule and TimeZone are
// checked by package scheduler.
func (j Job) Validate() error {
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, &lockguard.RequestError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}

	if reason := refuseName(j.Name); reason != "" {
		refuse("name", "%s", reason)
	}
	if j.Timeout < 0 {
		refuse("timeout", "%s is negative; write how long a run may take, or leave it out for no limit", j.Timeout)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Labels)) {
		if err := override.CheckLabel(name, j.Labels[name]); err != nil {
			refuse("labels["+name+"]", "%v", err)
		}
	}
	j.refusePolicies(refuse)
	first := make(map[string]int, len(j.Requirements))
	for i, r := range j.Requirements {
		problems = append(problems, within(fmt.Sprintf("locks[%d].", i), r.Validate())...)
		if at, twice := first[r.Scope]; twice {
			refuse(fmt.Sprintf("locks[%d].scope", i), "%q is that of locks[%d] already; write each scope once", r.Scope, at)
			continue
		}
		first[r.Scope] = i
	}
	if j.Work == nil {
		refuse("run", "is missing; write what the job runs")
	} else if work, ok := j.Work.(interface{ Validate() error }); ok {
		problems = append(problems, within("run.", work.Validate())...)
	}
	if _, ok := j.Work.(Cleaner); ok {
		if len(j.Requirements) == 0 {
			refuse("locks", "the work has a cleanup hook, which runs under a lock, but the job needs none; write its lock, "+
				"or leave out the hook")
		}
		for i, r := range j.Requirements {
			if r.CleanupTimeout == 0 {
				refuse(fmt.Sprintf("locks[%d].cleanup_timeout", i),
					"is not set, so the cleanup hook would have no time to run; write how long the cleanup needs")
			}
		}
	}
	return errors.Join(problems...)
}

// within returns the single problems of err, their fields with a prefix.
func within(prefix string, err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, err := range all.Unwrap() {
			problems = append(problems, within(prefix, err)...)
		}
		return problems
	}
	if r, ok := errors.AsType[*lockguard.RequestError](err); ok && r.Field != "" {
		return []error{&lockguard.RequestError{Field: prefix + r.Field, Reason: r.Reason}}
	}
	return []error{&lockguard.RequestError{Field: strings.TrimSuffix(prefix, "."), Reason: err.Error()}}
}

func refuseName(name string) string {
	if name == "" {
		return `must not be empty; write a name such as "nightly-backup"`
	}
	for i, c := range name {
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		switch {
		case letterOrDigit:
		case i == 0:
			return fmt.Sprintf("%q starts with %q; start with a letter or a digit", name, c)
		case c != '.' && c != '_' && c != '-':
			return fmt.Sprintf("%q contains %q; write only letters, digits, dots, underscores and hyphens", name, c)
		}
	}
	if len(name) > maxName {
		return fmt.Sprintf("%q is %d bytes long; write at most %d", name, len(name), maxName)
	}
	return ""
}

// Guard runs work under locks; *lockguard.Guard does.
type Guard interface {
	DoAll(ctx context.Context, all []lockguard.Requirement, work func(context.Context) error,
		hooks ...lockguard.Hook) error
}

// Do runs j once, now, under its locks if it needs any; guard may be nil if it
// does not. It returns what the guard returns, or else the error of the work.
// A panic of the work is a *lockguard.PanicError. The job should be valid.
func (j Job) Do(ctx context.Context, guard Guard, run Run) error {
	work, hooks := j.Bind(run)
	if len(j.Requirements) == 0 {
		return work(ctx)
	}
	return guard.DoAll(ctx, j.Owned(), work, hooks...)
}

// Owned returns the Requirements, each with its owner, and with the name and the
// labels by which operators' overrides find it. A class that is not set is the
// scope: jobs are declared, so there are only so many.
func (j Job) Owned() []lockguard.Requirement {
	owned := slices.Clone(j.Requirements)
	for i := range owned {
		r := &owned[i]
		if r.Owner == "" {
			r.Owner = j.Name
		}
		if r.Job == "" {
			r.Job = j.Name
		}
		if r.Class == "" {
			r.Class = r.Scope
		}
		if len(r.Labels) == 0 {
			r.Labels = j.Labels
		}
	}
	return owned
}

// Bind returns one run of j as a guard wants it: the work, which honours
// Timeout and turns a panic into a *lockguard.PanicError, and its hooks, which
// find in Run.Cause why the work was interrupted. StackOf tells where both are.
// A run without an Attempt gets one.
func (j Job) Bind(run Run) (work func(context.Context) error, hooks []lockguard.Hook) {
	if run.Job == "" {
		run.Job = j.Name
	}
	if run.Attempt == "" {
		run.Attempt = rand.Text()
	}
	var ended interruption
	work = func(ctx context.Context) (err error) {
		ctx, done := j.limited(ctx)
		defer done()
		defer func() {
			if v := recover(); v != nil {
				err = &lockguard.PanicError{In: "work", Value: v, Stack: debug.Stack()}
			}
			ended = interruption{cause: context.Cause(ctx), err: err}
		}()
		labelled(ctx, run, func(ctx context.Context) { err = j.Work.Run(ctx, run) })
		if over, ok := errors.AsType[*TimeoutError](context.Cause(ctx)); ok && !errors.Is(err, over) {
			err = errors.Join(over, err)
		}
		return err
	}
	if cleaner, ok := j.Work.(Cleaner); ok {
		hooks = append(hooks, func(ctx context.Context) (err error) {
			run := run
			run.Cause = ended.in(ctx)
			labelled(ctx, run, func(ctx context.Context) { err = cleaner.Cleanup(ctx, run) })
			return err
		})
	}
	return work, hooks
}

// limited returns ctx with the timeout of j.
func (j Job) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if j.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, j.Timeout, &TimeoutError{Job: j.Name, Timeout: j.Timeout})
}
