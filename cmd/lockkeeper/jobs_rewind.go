package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func (p *program) jobsRewind() *cobra.Command {
	var (
		file  jobsFile
		by    byFlag
		since moment
		dry   bool
	)
	c := &cobra.Command{
		Use:   "rewind JOB...",
		Short: "Let jobs run again whose ticks a daemon with a clock that was ahead has decided",
		Long: `Let jobs run again whose ticks a daemon with a clock that was ahead has decided
before they were due. Such a job is stopped (lockkeeper jobs ls) until the time that
that clock showed. The mark goes back to ZooKeeper's time, and no tick runs twice:
those that have run are skipped when they come, for the reason early. A job that is
not ahead is left alone, and that is said. Set the clock right first.

The history of a job has 32 entries. If it does not reach back to when the clock
went wrong, all ticks from now on up to those that it has are skipped: they may have
run. With --since, the time when the clock went wrong, only those that can have.

Until the last of the ticks that are skipped has come, daemons of a version that
does not know this command refuse the job. All jobs are looked up before any is set
back. Each is on record (lockkeeper audit) before it is done; what cannot be put
there is not done.

Exit code 75 if ZooKeeper does not answer, 78 for wrong flags or an unknown
job.`,
		Example: `  lockkeeper jobs rewind backup --reason 'clock of db3 was a day ahead' --dry-run
  lockkeeper jobs rewind backup --reason 'clock of db3 was a day ahead'
  lockkeeper jobs rewind rollup report -r INC-4411 --since '2026-11-22 09:05'`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		p.someJobs(args)
		by.check(p)
		how := ticks.Rewind{DryRun: dry}
		if since.given() && since.bad == "" {
			how.Since = since.before(time.Now())
		}
		if how.Since.After(time.Now()) {
			p.problems.add(fmt.Sprintf("--since: %s is still to come; write when the clock went wrong", clock(how.Since)))
		}
		now := time.Now()
		return onEachJob(p, c, file, args, func(ctx context.Context, o *operator, s ticks.State) (rewindView, error) {
			if dry {
				would, err := o.client.TickLedger("").Rewind(ctx, s.Job, how)
				return newRewindView(would, dry, ""), err
			}
			done, act, err := o.Rewind(ctx, s.Job, how, by.as(o.client))
			return newRewindView(done, dry, act), err
		}, func(w io.Writer, v rewindView) { writeRewind(w, v, now) })
	}
	file.add(c)
	by.add(c, "they are set back")
	c.Flags().Var(&since, "since", "the clock was wrong since this `time`: 15:04, 2006-01-02 15:04 (UTC) or RFC 3339")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be done")
	return c
}

// rewindView is what rewind has done to a job, in JSON and YAML. The names of fields
// are a promise to scripts.
type rewindView struct {
	Job       string          `json:"job"`
	From      *time.Time      `json:"from"` // decided up to there, before; null: it was not ahead, nothing was done
	To        *time.Time      `json:"to"`   // and from now on
	LeftOut   []views.Stretch `json:"left_out"`
	Forgotten bool            `json:"forgotten"` // some of them may not have run
	DryRun    bool            `json:"dry_run"`
	Act       string          `json:"act"` // its name in the audit trail; "" for a dry run
}

func newRewindView(r ticks.Rewound, dry bool, act string) rewindView {
	v := rewindView{
		Job: r.Job, From: live.Optional(r.From), To: live.Optional(r.To), LeftOut: make([]views.Stretch, 0, len(r.LeftOut)),
		Forgotten: r.Forgotten, DryRun: dry, Act: act,
	}
	for _, s := range r.LeftOut {
		v.LeftOut = append(v.LeftOut, views.Stretch(s))
	}
	return v
}

func writeRewind(w io.Writer, v rewindView, now time.Time) {
	if v.From == nil {
		line(w, "%s: is not ahead of ZooKeeper's clock; nothing to set back", v.Job)
		return
	}
	verb := "set back"
	if v.DryRun {
		verb = "would be set back"
	}
	if v.From.Equal(*v.To) {
		line(w,
			"%s: had been set back; fewer ticks %s skipped", v.Job, map[bool]string{true: "would be", false: "are"}[v.DryRun])
	} else {
		line(w, "%s: %s from %s to %s", v.Job, verb, both(*v.From, now), both(*v.To, now))
	}
	switch n := len(v.LeftOut); {
	case n == 0:
		line(w, "  none of its ticks has run early")
	case v.Forgotten:
		line(w, "  skipped when they come: ticks from %s up to %s that have run early, or may have: "+
			"the history does not reach back to when the clock went wrong; --since TIME says when that was",
			both(v.LeftOut[0].After, now), both(v.LeftOut[n-1].Until, now))
	default:
		line(w,
			"  skipped when they come: %s that ran early, up to %s", words.Count(n, "tick"), both(v.LeftOut[n-1].Until, now))
	}
}
