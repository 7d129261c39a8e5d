package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

type jobsRunFlags struct {
	file         jobsFile
	by           byFlag
	wait, dryRun yes
	within       duration
}

// defaultWithin is how long a daemon has to take a request. It watches for
// them, so that seconds say enough.
const defaultWithin = 10 * time.Second

func (p *program) jobsRun() *cobra.Command {
	f := &jobsRunFlags{within: duration{positive: "10s"}}
	c := p.command(&cobra.Command{
		Use:   "run JOB",
		Short: "Run a job now, by hand",
		Long: `Ask the daemons to run a job now. One that has the job takes the request and runs
it as it would at a tick: under its locks, with its timeout and its retries. No
tick of the schedule is taken by it.

It returns when a daemon has taken the request; with --wait, when the run has
ended. A request that no daemon takes within --within, or before a signal comes, is
withdrawn, and is not run later. What was taken goes on, whatever happens here.
The request is on record (lockkeeper audit) before it is made, and whether a daemon
has taken it after; one that cannot be put there is not made.

With --dry-run nothing runs: it shows which locks the job would wait for, and
whom it would preempt, as far as can be told now. It needs the configuration file.

Exit code:
  0      with --wait: it ran; without: a daemon has taken it
  1      it failed, or its daemon ended
  75     not started: no daemon has taken it, or its locks were not acquired;
         or ZooKeeper does not answer
  76     preempted, or the lease was over
  77     its lock was lost
  78     wrong flags, or an unknown job
  128+n  signal n ended the waiting`,
		Example: `  lockkeeper jobs run backup --reason 'before the migration'
  lockkeeper jobs run backup --reason INC-4411 --wait
  lockkeeper jobs run backup --dry-run -f /etc/lockkeeper/lockkeeper.yaml`,
	}, []string{"JOB"}, func(c *cobra.Command, args []string) error {
		if f.dryRun.is {
			return p.dryRun(c, f, args)
		}
		f.by.check(p)
		return p.runJob(c, f, args)
	})
	flags := c.Flags()
	flags.SortFlags = false
	f.file.add(c)
	f.by.add(c, "it runs")
	flags.VarPF(&f.wait, "wait", "w", "wait for the end of the run").NoOptDefVal = "true"
	flags.VarPF(&f.dryRun, "dry-run", "", "only say what it would wait for").NoOptDefVal = "true"
	flags.Var(&f.within, "within", "how long a daemon may take to take it (default 10s)")
	return c
}

// runJob asks for a run, and waits for what was asked for.
func (p *program) runJob(c *cobra.Command, f *jobsRunFlags, args []string) error {
	cfg, client, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	return p.onJobs(c, cfg, client, func(ctx context.Context, o *operator) error {
		name, ledger := args[0], o.client.TickLedger("")
		quick, cancel := shortly(ctx)
		defer cancel()
		states, err := knownStates(quick, c, ledger, args, cfg)
		if err != nil {
			return err
		}
		if pause := views.NewPause(states[0].Paused, time.Now()); pause != nil {
			p.say("the job %q is paused, but a run by hand is made all the same", name)
		}
		order := &runOrder{ledger: ledger, job: name, within: f.within.or(defaultWithin)}
		if err := order.place(ctx, o, ledger, f.by.as(o.client)); err != nil {
			return err
		}
		if !f.wait.is {
			return p.tellRun(order)
		}
		if run := order.run(); run != nil {
			p.say("the job %q runs on %s (pid %d), run %s; waiting for its end", name, run.Host, run.PID, run.ID)
		}
		err = order.await(ctx, order.ended)
		if signal, ok := errors.AsType[*jobs.SignalError](err); ok {
			return order.goesOn(signal)
		}
		if err != nil {
			return err
		}
		return p.tellRun(order)
	})
}

// tellRun says what has become of the run so far, and returns the exit code
// for it.
func (p *program) tellRun(o *runOrder) error {
	end, run := o.seen.Result(o.request.ID()), o.run()
	switch {
	case end != nil:
	case run == nil:
		return &codeError{code: exitFailed, text: fmt.Sprintf(
			"the run of the job %q has ended, but its history does not go back far enough to tell how", o.job)}
	case run.Alive:
		return p.write(views.NewRun(*run), func(w io.Writer, _ bool) {
			line(w, "%s: runs on %s (pid %d), run %s", o.job, run.Host, run.PID, run.ID)
		})
	default: // it is not recorded yet
		end = &ticks.Result{
			Run: *run,
			End: ticks.End{Outcome: ticks.Interrupted, Reason: "its daemon, or the daemon's ZooKeeper session, has ended"},
		}
	}
	view := views.NewTick(*end)
	err := p.write(view, func(w io.Writer, _ bool) { writeRunEnd(w, o.job, view) })
	if code := outcomeCode(end.Outcome); code != 0 {
		return &codeError{code: code}
	}
	return err
}

func writeRunEnd(w io.Writer, job string, v views.Tick) {
	details := []string{fmt.Sprintf("on %s (pid %d)", v.Host, v.PID), "run " + v.ID}
	if v.Outcome != string(ticks.Skipped) {
		details = append(details, "took "+orNoTime(v.Took))
	}
	if v.Waited > 0 {
		details = append(details, "waited "+orNoTime(v.Waited))
	}
	if v.Attempts > 1 {
		details = append(details, fmt.Sprintf("%d attempts", v.Attempts))
	}
	if v.Token != 0 {
		details = append(details, "token "+v.Token.String())
	}
	line(w, "%s: %s %s", job, v.Outcome, strings.Join(details, ", "))
	if v.Reason != "" {
		line(w, "  %s", firstLine(v.Reason))
	}
}

// outcomeCode is the exit code for how a run ended.
func outcomeCode(outcome ticks.Outcome) int {
	switch outcome {
	case ticks.Ran:
		return 0
	case ticks.Preempted:
		return exitPreempted
	case ticks.Lost:
		return exitLost
	case ticks.Skipped:
		return exitNotAcquired
	case ticks.Failed, ticks.Interrupted:
	}
	return exitFailed
}

// dryRun says what a run would wait for.
func (p *program) dryRun(c *cobra.Command, f *jobsRunFlags, args []string) error {
	cfg, err := p.daemonConfig(c, f.file.name)
	if err != nil {
		return err
	}
	if err := unknownNames(c, args, jobNames(cfg), f.file.name+" does not have it"); err != nil {
		return err
	}
	job := *jobOf(cfg, args[0])
	look, err := p.lookAtJob(c.Context(), cfg, job)
	if err != nil {
		return err
	}
	now := time.Now()
	view := dryRunView{
		Job: job.Name, Runs: newJobView(&job, *look.ticks, look.requests, now).Runs, Locks: lockPlans(job, look.locks),
	}
	return p.write(view, func(w io.Writer, _ bool) {
		for _, r := range view.Runs {
			if r.Alive {
				line(w, "%s runs already, on %s (pid %d) since %s: another run waits for its end",
					job.Name, r.Host, r.PID, both(r.StartedAt, now))
			}
		}
		if len(view.Locks) == 0 {
			line(w, "%s needs no lock: it would run at once", job.Name)
			return
		}
		line(w, "%s would need, if it ran now", job.Name)
		writeLockPlans(w, view.Locks)
		line(w, "nothing was run")
	})
}

// dryRunView is what a run would wait for, in JSON and YAML.
type dryRunView struct {
	Job   string         `json:"job"`
	Runs  []views.Run    `json:"runs"` // that go on
	Locks []lockPlanView `json:"locks"`
}
