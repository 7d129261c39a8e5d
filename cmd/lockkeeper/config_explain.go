package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

type configExplainFlags struct {
	file    string
	from    moment
	offline yes
}

func (p *program) configExplain() *cobra.Command {
	f := &configExplainFlags{}
	c := p.command(&cobra.Command{
		Use:   "explain JOB",
		Short: "Say what a job is: its next runs, its policies, and whom it would wait for",
		Long: `Say what a job of a configuration file is: what it runs and when, in its own zone
and in UTC, with the changes of clocks and the blackouts; what its policies mean
in plain words; what may surprise; and for each of its locks what would become of
a run that began now: whom it would wait for, whom it would preempt, until when.

The locks are as ZooKeeper shows them now. When it does not answer, or with
--offline, all the rest is said. Nothing is changed, and nothing is queued.

Exit code 78 for a file that cannot be used, or a job that it does not have.`,
		Example: `  lockkeeper config explain backup
  lockkeeper config explain backup -f new.yaml --offline
  lockkeeper config explain backup --from 2027-03-27 -o json | jq '.next'`,
	}, []string{"JOB"}, func(c *cobra.Command, args []string) error { return p.explain(c, f, args) })
	flags := c.Flags()
	flags.StringVarP(&f.file, "file", "f", defaultFile, "configuration `file`")
	flags.Var(&f.from, "from", "the runs as seen at this `time` (default now)")
	flags.VarPF(&f.offline, "offline", "", "do not ask ZooKeeper").NoOptDefVal = "true"
	return c
}

// explainView is a job in JSON and YAML. The names of fields are a promise to
// scripts.
type explainView struct {
	Job       string         `json:"job"`
	File      string         `json:"file"`
	Runs      string         `json:"runs"`
	Schedule  *string        `json:"schedule"`
	Timezone  *string        `json:"timezone"`
	Next      []nextView     `json:"next"`
	Policies  []policyView   `json:"policies"`
	Warnings  []string       `json:"warnings"`
	ZooKeeper string         `json:"zookeeper"` // answers, silent or offline
	Now       *views.Job     `json:"now"`       // null: unknown
	Locks     []lockPlanView `json:"locks"`     // as they stand
}

// explained is how many runs are shown.
const explained = 5

func (p *program) explain(c *cobra.Command, f *configExplainFlags, args []string) error {
	cfg, err := p.daemonConfig(c, f.file)
	if err != nil {
		return err
	}
	if err := unknownNames(c, args, jobNames(cfg), f.file+" does not have it"); err != nil {
		return err
	}
	job := jobOf(cfg, args[0])
	from := f.from.or(time.Now())
	ticks, err := ticksOf(*job, from, explained)
	if err != nil {
		return err
	}
	view := explainView{
		Job: job.Name, File: f.file, Runs: workWords(job.Work), Next: ticks,
		Policies: policies(*job), Warnings: warningsOf(cfg, job.Name),
	}
	view.Schedule, view.Timezone = specOf(*job)
	if err := p.explainLocks(c, f.offline.is, cfg, *job, &view); err != nil {
		return err
	}
	return p.write(view, func(w io.Writer, _ bool) { writeExplanation(w, view, from) })
}

// explainLocks adds what ZooKeeper knows; its silence is no error.
func (p *program) explainLocks(
	c *cobra.Command, offline bool, cfg *config.Config, job jobs.Job, view *explainView,
) error {
	var look jobLook
	var err error
	view.ZooKeeper = "offline"
	if !offline {
		view.ZooKeeper = "answers"
		look, err = p.lookAtJob(c.Context(), cfg, job)
		if errors.As(err, new(*lock.UnavailableError)) {
			view.ZooKeeper, err = "silent", nil
		}
	}
	if err != nil {
		return err
	}
	view.Locks = lockPlans(job, look.locks)
	if look.ticks != nil {
		view.Now = new(newJobView(&job, *look.ticks, look.requests, time.Now()))
	}
	return nil
}

// lockPlans foresees the locks of a job; states are those that are known.
func lockPlans(job jobs.Job, states map[string]lock.State) []lockPlanView {
	plans := make([]lockPlanView, 0, len(job.Requirements))
	for _, r := range job.Owned() {
		var known *lock.State
		if s, ok := states[r.Scope]; ok {
			known = &s
		}
		plan := newLockPlan(r, known)
		plan.manual = isManual(job.Schedule)
		plans = append(plans, plan)
	}
	return plans
}

// jobLook is what ZooKeeper knows of a job.
type jobLook struct {
	locks    map[string]lock.State // by scope
	requests []live.Request        // for these
	ticks    *ticks.State
}

// lookAtJob looks at the locks of a job, on the ensemble that has them, and at its
// ticks. When ZooKeeper does not answer soon the error is an *lock.UnavailableError.
func (p *program) lookAtJob(ctx context.Context, cfg *config.Config, job jobs.Job) (found jobLook, err error) {
	err = p.withLock(ctx, cfg, cfg.Client, anyScope(job), func(
		stopped context.Context, here *ensemble, home *lock.Client,
	) error {
		ctx, cancel := context.WithTimeoutCause(stopped, planPatience, noAnswer(planPatience))
		defer cancel()
		states := make(map[string]lock.State, len(job.Requirements))
		var state ticks.State
		var frozen []lock.FrozenRequest
		asked := cfg.Client
		look := func() (err error) {
			if state, err = home.TickLedger("").State(ctx, job.Name); err != nil {
				return err
			}
			asked = here.config
			for _, r := range job.Requirements {
				if states[r.Scope], err = here.client.Lock(ctx, r.Scope); err != nil {
					return here.explain(err)
				}
			}
			frozen, _, _ = home.Frozen(ctx) // else less is known
			return nil
		}
		switch err := look(); {
		case err == nil:
			requests := append([]live.Request{}, live.Requests(live.NewLocks(slices.Collect(maps.Values(states))), frozen)...)
			found = jobLook{states, requests, &state}
			return nil
		case stopped.Err() != nil:
			return context.Cause(stopped)
		case ctx.Err() != nil && !errors.As(err, new(*lock.UnavailableError)):
			return &lock.UnavailableError{Servers: asked.Servers, Err: context.Cause(ctx)}
		default:
			return err
		}
	})
	return found, err
}

// anyScope is one of the scopes of a job, which are all on one ensemble; "" for none.
func anyScope(job jobs.Job) string {
	if len(job.Requirements) == 0 {
		return ""
	}
	return job.Requirements[0].Scope
}

// warningsOf are those about one job.
func warningsOf(cfg *config.Config, job string) []string {
	warnings := []string{}
	for _, w := range cfg.Warnings {
		if strings.HasPrefix(w.Path, "jobs["+job+"]") {
			warnings = append(warnings, w.String())
		}
	}
	return warnings
}

func writeExplanation(w io.Writer, v explainView, from time.Time) {
	row(w, v.Job, v.Runs)
	row(w, "schedule", scheduleOf(views.Job{Schedule: v.Schedule, Timezone: v.Timezone}))
	if v.Now != nil {
		row(w, "now", nowWords(*v.Now, time.Now()))
	}

	line(w, "\nnext runs")
	if len(v.Next) == 0 {
		line(w, "  none: it runs by hand only, lockkeeper jobs run %s", v.Job)
	} else {
		writeTicks(w, v.Next, from, "  ", false)
	}

	line(w, "\npolicies")
	for _, policy := range v.Policies {
		row(w, "  "+policy.Name, policy.Text)
	}

	writeLocksOf(w, v)
	if len(v.Warnings) > 0 {
		line(w, "\nwarnings")
		for _, warning := range v.Warnings {
			line(w, "  %s", warning)
		}
	}
}

func writeLocksOf(w io.Writer, v explainView) {
	if len(v.Locks) == 0 {
		line(w, "\nlocks: none, it waits for no lock")
		return
	}
	switch v.ZooKeeper {
	case "answers":
		line(w, "\nlocks, if it ran now")
	case "silent":
		line(w, "\nlocks; ZooKeeper does not answer, so their holders are unknown")
	default:
		line(w, "\nlocks")
	}
	writeLockPlans(w, v.Locks)
}

// nowWords is what the cluster knows of a job, in one line.
func nowWords(v views.Job, now time.Time) string {
	parts := []string{jobState(v, now)}
	if v.Paused != nil {
		parts = append(parts, pauseWords(*v.Paused, now))
	}
	if v.Last != nil {
		parts = append(parts, "last: "+v.Last.Outcome+" "+relative(v.Last.EndedAt, now))
	}
	if v.Failures > 0 {
		parts = append(parts, words.Count(v.Failures, "failure")+" in a row")
	}
	return strings.Join(parts, "; ")
}
