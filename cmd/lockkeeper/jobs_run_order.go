package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// A runOrder is a request to run a job by hand, and what was seen of it.
type runOrder struct {
	ledger  jobLedger
	job     string
	within  time.Duration
	request jobRequest
	taken   bool // by a daemon
	seen    ticks.State
}

// jobLedger is what a runOrder needs of a *ticks.Ledger, and jobRequest
// of its request.
type jobLedger interface {
	Await(ctx context.Context, job string, seen ticks.State) (ticks.State, error)
	State(ctx context.Context, job string) (ticks.State, error)
}

type jobRequest interface {
	AwaitTaken(ctx context.Context) error
	ID() string
	Withdraw(ctx context.Context) (taken bool, err error)
}

// place makes the request and waits until a daemon has taken it, on record: of a
// run that a daemon has taken, also when that cannot be waited for here, it is
// said that it was taken. How it ends is in the history of the job.
func (o *runOrder) place(ctx context.Context, operator *operator, ledger *ticks.Ledger, by emergency.By) error {
	quick, cancel := shortly(ctx)
	defer cancel()
	var late error // something is wrong, but it runs
	_, err := operator.OnRecord(quick, emergency.RunEntry(o.job, by), func(outcome *opstore.AuditEntry) error {
		// A signal waits for the answer: a request that is not known to stand could not be withdrawn.
		asking, cancel := shortly(context.WithoutCancel(ctx))
		defer cancel()
		request, err := ledger.Request(asking, ticks.Request{Job: o.job, By: by.Name, Reason: by.Reason})
		if err != nil {
			return err
		}
		o.request = request
		outcome.After = map[string]string{"run": request.ID()}
		err = o.awaitTaker(ctx)
		if o.taken {
			late, err = err, nil
		}
		return err
	})
	return errors.Join(late, err)
}

// run returns the run that was asked for while it goes on.
func (o *runOrder) run() *ticks.Run {
	i := slices.IndexFunc(o.seen.Runs, func(r ticks.Run) bool { return r.ID == o.request.ID() })
	if i < 0 {
		return nil
	}
	return &o.seen.Runs[i]
}

// ended reports whether the run has ended, or its daemon has.
func (o *runOrder) ended() bool {
	run := o.run()
	return run == nil || !run.Alive
}

// awaitTaker waits until a daemon has taken the request, and withdraws it if
// none does in time.
func (o *runOrder) awaitTaker(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, o.within)
	defer cancel()
	err := o.request.AwaitTaken(limited)
	if errors.As(err, new(*ticks.RequestLostError)) {
		return &codeError{code: exitNotAcquired, text: err.Error()}
	}
	if err != nil {
		if err := o.withdraw(ctx, limited.Err() != nil, err); err != nil {
			return err
		}
	}
	o.taken = true
	quick, cancelQuick := shortly(ctx)
	defer cancelQuick()
	if o.seen, err = o.ledger.State(quick, o.job); err != nil {
		return fmt.Errorf("a daemon has taken the request, run %s, and the run goes on: %w", o.request.ID(), err)
	}
	return nil
}

// withdraw takes the request back, because of err or because the time is over:
// a pending one could be taken later, unexpectedly. It
// returns nil if a daemon was faster.
func (o *runOrder) withdraw(ctx context.Context, over bool, err error) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	taken, withdrawErr := o.request.Withdraw(late)
	signal, told := errors.AsType[*jobs.SignalError](context.Cause(ctx))
	switch {
	case withdrawErr != nil && told:
		return errors.Join(signal, withdrawErr)
	case withdrawErr != nil:
		return withdrawErr
	case taken && told:
		o.taken = true
		return o.goesOn(signal)
	case taken:
		return nil
	case told:
		return &codeError{
			code: signal.ExitCode(), text: fmt.Sprintf("job %q not started: %v; the request is withdrawn", o.job, signal),
		}
	case over:
		return &codeError{code: exitNotAcquired, text: o.whyNotTaken(late)}
	}
	return err
}

// goesOn says that the end of this program does not end the run.
func (o *runOrder) goesOn(signal *jobs.SignalError) error {
	where := ""
	if run := o.run(); run != nil {
		where = fmt.Sprintf(" on %s (pid %d)", run.Host, run.PID)
	}
	return &codeError{
		code: signal.ExitCode(),
		text: fmt.Sprintf("the run of the job %q goes on%s; see: lockkeeper jobs history %s", o.job, where, o.job),
	}
}

// withdrawTimeout is how long ZooKeeper has to confirm that a request is
// withdrawn. One that is not ends with the session.
const withdrawTimeout = 5 * time.Second

// await waits until the job is as it shall be.
func (o *runOrder) await(ctx context.Context, until func() bool) error {
	for !until() {
		state, err := o.ledger.Await(ctx, o.job, o.seen)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		o.seen = state
	}
	return nil
}

// whyNotTaken says what is known of why no daemon has taken the request.
func (o *runOrder) whyNotTaken(ctx context.Context) string {
	o.seen, _ = o.ledger.State(ctx, o.job) // if it fails, less is known
	text := fmt.Sprintf("job %q not started: no daemon has taken the request within %s, and it is withdrawn; ",
		o.job, human(o.within))
	if i := slices.IndexFunc(o.seen.Runs, func(r ticks.Run) bool { return r.Alive }); i >= 0 {
		run := o.seen.Runs[i]
		return text + fmt.Sprintf("it runs already, on %s (pid %d) since %s: wait for its end, or give --within more time",
			run.Host, run.PID, both(run.ClaimedAt, time.Now()))
	}
	return text + "probably no daemon that has this job runs, or all of them are draining: " +
		"start lockkeeper run with a file that has it"
}
