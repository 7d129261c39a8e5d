package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func (p *program) jobsHistory() *cobra.Command {
	var file jobsFile
	n := number{is: 20}
	c := p.command(&cobra.Command{
		Use:   "history JOB",
		Short: "Show how the last ticks of a job ended, where, and why",
		Long: `Show how the last ticks of a job ended, the newest last; then what goes on now,
and how many have ended in which way since the first.

  SCHEDULED  the instant of the schedule, UTC, or "by hand"; for ticks that were
             skipped one after another the first and the last
  STARTED    when a daemon took it
  WAITED     how long it waited for its locks
  TOOK       how long it worked
  TOKEN      the fencing token of its first lock
  ATTEMPTS   how often it was tried

Some thirty ticks are kept of a job, skips in a row as one; the counts are of all.

Exit code 75 if ZooKeeper does not answer, 78 for an unknown job.`,
		Example: `  lockkeeper jobs history backup
  lockkeeper jobs history backup -n 100 -o wide
  lockkeeper jobs history backup -o json | jq '.history[] | select(.outcome == "failed")'`,
	}, []string{"JOB"}, func(c *cobra.Command, args []string) error { return p.showHistory(c, file, args, n.is) })
	file.add(c)
	c.Flags().VarP(&n, "number", "n", "how `many` ticks at most (default 20)")
	return c
}

func (p *program) showHistory(c *cobra.Command, file jobsFile, args []string, n int) error {
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var states []ticks.State
	var requests []live.Request
	err = p.withEnsembles(c.Context(), ensemblesOf(cfg, client), func(ctx context.Context, all ensembles) (err error) {
		ctx, cancel := shortly(ctx)
		defer cancel()
		states, err = knownStates(ctx, c, all[0].client.TickLedger(""), args, cfg)
		if err != nil {
			return err
		}
		var problem error
		if requests, problem = requestsOf(ctx, all, states...); problem != nil {
			p.say("%v", problem)
		}
		return err
	})
	if err != nil {
		return err
	}
	now := time.Now()
	view := views.NewHistory(states[0], requests, n, now)
	if len(view.History)+len(view.Runs)+len(view.Waiting) == 0 {
		p.say("no tick of the job %q has ended yet", args[0])
		if p.forPeople() && view.Paused == nil {
			return nil
		}
	}
	return p.write(view, func(w io.Writer, wide bool) { writeHistory(w, view, now, wide) })
}

// isKnown reports whether the ledger has heard of a job.
func isKnown(s ticks.State) bool {
	return !s.Begins.IsZero() || !s.Last.IsZero() || len(s.Runs)+len(s.History) > 0 || s.Paused != nil ||
		s.Counts.Total() > 0
}

// number is how many of something.
type number struct {
	is   int
	most int // 0: no bound
	bad  string
}

func (v *number) Set(s string) error {
	v.bad = ""
	switch _, err := fmt.Sscanf(s+"\n", "%d\n", &v.is); {
	case err != nil || v.is < 1:
		v.bad = fmt.Sprintf("%q is not a positive whole number", s)
	case v.most > 0 && v.is > v.most:
		v.bad = fmt.Sprintf("%d are too many; write %d or less", v.is, v.most)
	}
	return nil
}

func (v *number) String() string  { return "" }
func (v *number) Type() string    { return "number" }
func (v *number) problem() string { return v.bad }
