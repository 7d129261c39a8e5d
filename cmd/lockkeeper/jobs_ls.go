package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func (p *program) jobsLs() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "ls",
		Short: "List all jobs: what they do now, when they run next, how they ended last",
		Long: `List all jobs: what they do now, when they run next, how they ended last.

The jobs are those of the configuration file, and those that daemons have run
under this root; without a file the latter alone, and then their next runs are
not known.

  STATE      running; waiting: for a lock, or a tick is due and waits for the end
             of a run; delayed: only the lock-delay after a lost holder is in its
             way; frozen: an override keeps it out of the queue of its lock;
             cleaning up: it was preempted; paused; idle;
             stopped: a daemon whose clock was ahead has decided ticks that are
             still to come (lockkeeper jobs rewind); or temporal: a schedule of
             the Temporal server starts it, and what became of that is to be seen
             there. Then for how long
  LAST       the outcome of the last tick: ran, failed, preempted, lost (its
             lock), interrupted (its daemon ended) or skipped
  FAILURES   how many runs in a row have failed

Below the table: whom the jobs that wait or are frozen wait for, and until when.

With -o wide also who runs it, and how many ticks have ended in which way.

Exit code 75 if ZooKeeper does not answer, 78 for a file that cannot be used.`,
		Example: `  lockkeeper jobs ls
  lockkeeper jobs ls -f /etc/lockkeeper/lockkeeper.yaml -o wide
  lockkeeper jobs ls -o json | jq -r '.[] | select(.failures_in_a_row > 0) | .name'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.listJobs(c, file) })
	file.add(c)
	return c
}

func (p *program) listJobs(c *cobra.Command, file jobsFile) error {
	cfg, client, err := p.jobsConfig(c, file)
	if err != nil {
		return err
	}
	var states []ticks.State
	var requests []live.Request
	var left []lock.Unreadable
	var off time.Duration // this machine's clock
	err = p.withEnsembles(c.Context(), ensemblesOf(cfg, client), func(ctx context.Context, all ensembles) (err error) {
		ctx, cancel := shortly(ctx)
		defer cancel()
		ledger := all[0].client.TickLedger("")
		if states, left, err = ledger.States(ctx); err != nil {
			return err
		}
		off = clockAhead(ledger)
		requests, err = requestsOf(ctx, all, states...)
		if err != nil {
			p.say("%v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	now := time.Now().Add(-off)
	defer p.tellUnreadable(left)
	listed := jobViews(cfg, states, requests, left, now)
	if len(listed) == 0 && len(left) == 0 {
		p.say("there are no jobs under this root; one is listed once a daemon runs it, or is in the file: -f FILE")
		if p.forPeople() {
			return nil
		}
	}
	return p.write(listed, func(w io.Writer, wide bool) {
		writeJobs(w, listed, now, wide)
		writeClocks(w, listed, off, now)
	})
}

// jobViews joins the jobs of the file with those of the ledger, by name. Those of
// which the ledger has what cannot be read are left out: what they do is not known.
func jobViews(
	cfg *config.Config, states []ticks.State, requests []live.Request, left []lock.Unreadable, now time.Time,
) []views.Job {
	listed := make([]views.Job, 0, len(states))
	for _, s := range states {
		listed = append(listed, newJobView(jobOf(cfg, s.Job), s, requests, now))
	}
	for _, name := range jobNames(cfg) {
		if !slices.ContainsFunc(states, func(s ticks.State) bool { return s.Job == name }) &&
			!slices.ContainsFunc(left, func(u lock.Unreadable) bool { return u.Name == name }) {
			listed = append(listed, newJobView(jobOf(cfg, name), ticks.State{Job: name}, requests, now))
		}
	}
	for i := range listed {
		if isTemporals(cfg, listed[i].Name) {
			listed[i].By = "temporal"
		}
	}
	slices.SortFunc(listed, func(a, b views.Job) int { return strings.Compare(a.Name, b.Name) })
	return listed
}
