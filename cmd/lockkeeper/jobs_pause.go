package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func (p *program) jobsPause() *cobra.Command {
	var (
		file  jobsFile
		by    byFlag
		until moment
	)
	forHow := duration{positive: "2h"}
	c := &cobra.Command{
		Use:   "pause JOB...",
		Short: "Keep jobs from running, in the whole cluster",
		Long: `Keep jobs from running, in the whole cluster, until they are resumed or until a
time: their ticks are recorded as skipped. Runs that have started finish.

A job that is paused already gets the new reason and the new end; who had paused
it, and why, is said. All jobs are looked up before any is paused. Each pause is on
record (lockkeeper audit) before it is made; what cannot be put there is not done.

Exit code 75 if ZooKeeper does not answer, 78 for wrong flags or an unknown
job.`,
		Example: `  lockkeeper jobs pause backup --reason 'disk is full' --for 2h
  lockkeeper jobs pause rollup report --reason INC-4411 --until 06:00
  lockkeeper jobs pause backup -r 'until the migration is done'`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		p.someJobs(args)
		by.check(p)
		now := time.Now()
		if until.given() && forHow.given {
			p.problems.add("--until and --for: give one of them")
		}
		end := until.or(time.Time{})
		switch {
		case forHow.given:
			end = now.Add(forHow.or(0))
		case until.given() && until.bad == "":
			if end = until.after(now); !end.After(now) {
				p.problems.add(fmt.Sprintf("--until: %s is over; write a time to come", clock(end)))
			}
		}
		return p.changeJobs(c, file, args, func(ctx context.Context, o *operator, s ticks.State) (pauseChange, error) {
			who := by.as(o.client)
			was, act, err := o.Pause(ctx, s.Job, end, who)
			paused := &ticks.Pause{By: who.Name, Reason: who.Reason, Until: end, At: now}
			return newPauseChange(s, was, paused, now, act), err
		})
	}
	file.add(c)
	by.add(c, "they are paused")
	c.Flags().Var(&until, "until", "resume them at this `time`: 15:04, 2006-01-02 15:04 (UTC) or RFC 3339")
	c.Flags().Var(&forHow, "for", "resume them after this long, for example 2h")
	return c
}

func (p *program) jobsResume() *cobra.Command {
	var (
		file jobsFile
		by   byFlag
	)
	c := &cobra.Command{
		Use:   "resume JOB...",
		Short: "Let paused jobs run again",
		Long: `Let paused jobs run again, in the whole cluster, from their next tick on. Those
that they missed are not made up for. For a job that is not paused it does
nothing, and says so.

A job that was paused after failures begins to count anew. It is on record
(lockkeeper audit) before it is done; what cannot be put there is not done.

Exit code 75 if ZooKeeper does not answer, 78 for an unknown job.`,
		Example: `  lockkeeper jobs resume backup
  lockkeeper jobs resume rollup report --reason 'INC-4411 is over'
  lockkeeper jobs ls -o json | jq -r '.[] | select(.paused) | .name' | xargs lockkeeper jobs resume`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		p.someJobs(args)
		by.check(p)
		return p.changeJobs(c, file, args, func(ctx context.Context, o *operator, s ticks.State) (pauseChange, error) {
			was, act, err := o.Resume(ctx, s.Job, by.as(o.client))
			return newPauseChange(s, was, nil, time.Now(), act), err
		})
	}
	file.add(c)
	by.addOptional(c, "they are resumed", "resumed by hand")
	return c
}

// pauseChange is what pause and resume have done to a job, in JSON and YAML.
// The names of fields are a promise to scripts.
type pauseChange struct {
	Job    string       `json:"job"`
	Paused *views.Pause `json:"paused"`
	Was    *views.Pause `json:"was"` // how it was paused before
	Runs   []views.Run  `json:"runs"`
	Act    string       `json:"act"` // its name in the audit trail
}

func newPauseChange(s ticks.State, was, is *ticks.Pause, now time.Time, act string) pauseChange {
	return pauseChange{
		Job: s.Job, Paused: views.NewPause(is, now), Was: views.NewPause(was, now), Runs: newJobView(nil, s, nil, now).Runs,
		Act: act,
	}
}

type changeJob func(context.Context, *operator, ticks.State) (pauseChange, error)

// changeJobs pauses or resumes jobs, if all of them are known.
func (p *program) changeJobs(c *cobra.Command, file jobsFile, names []string, change changeJob) error {
	now := time.Now()
	return onEachJob(p, c, file, names, change, func(w io.Writer, v pauseChange) { writePauseChange(w, v, now) })
}

// onEachJob changes something about jobs, if all of them are known, and writes what
// was done.
func onEachJob[V any](
	p *program, c *cobra.Command, file jobsFile, names []string,
	change func(context.Context, *operator, ticks.State) (V, error), write func(io.Writer, V),
) error {
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	changes := make([]V, 0, len(names))
	failed := p.onJobs(c, cfg, client, func(ctx context.Context, o *operator) error {
		quick, cancel := shortly(ctx)
		defer cancel()
		states, err := knownStates(quick, c, o.client.TickLedger(""), names, cfg)
		if err != nil {
			return err
		}
		for _, state := range states {
			quick, cancel := shortly(ctx)
			done, err := change(quick, o, state)
			cancel()
			if err != nil {
				return err
			}
			changes = append(changes, done)
		}
		return nil
	})
	if failed != nil && len(changes) == 0 {
		return failed
	}
	err = p.write(changes, func(w io.Writer, _ bool) {
		for _, change := range changes {
			write(w, change)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

func writePauseChange(w io.Writer, v pauseChange, now time.Time) {
	switch {
	case v.Paused != nil:
		until := "until somebody resumes it"
		if v.Paused.Until != nil {
			until = "until " + both(*v.Paused.Until, now)
		}
		line(w, "%s: paused %s", v.Job, until)
	case v.Was != nil:
		line(w, "%s: resumed", v.Job)
	default:
		line(w, "%s: is not paused", v.Job)
	}
	if v.Was != nil {
		line(w, "  it was paused %s", pauseWords(*v.Was, now))
	}
	for _, r := range v.Runs {
		if v.Paused != nil && r.Alive {
			line(w, "  a run goes on: on %s, pid %d, since %s", r.Host, r.PID, both(r.StartedAt, now))
		}
	}
}
