package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
)

func (p *program) jobsNext() *cobra.Command {
	var (
		file string
		from moment
	)
	n := number{is: 5, most: 10_000} // each second of three hours
	c := &cobra.Command{
		Use:   "next [JOB...]",
		Short: "Show the next ticks of all jobs, or of some",
		Long: `Show the next ticks of all jobs of a configuration file, or of some of them, in
the order of time: in the zone of the job and in UTC, with what is special about
them, such as a change of the clocks or a blackout.

ZooKeeper is not asked, so pauses are not known here: see lockkeeper jobs ls.

Exit code 78 for a file that cannot be used, or a job that it does not have.`,
		Example: `  lockkeeper jobs next
  lockkeeper jobs next backup -n 20 -f /etc/lockkeeper/lockkeeper.yaml
  lockkeeper jobs next --from 2027-03-28`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		cfg, err := config.Load(file, config.Options{})
		if err != nil {
			return err
		}
		if err := unknownNames(c, args, jobNames(cfg), file+" does not have it"); err != nil {
			return err
		}
		return p.nextTicks(cfg, args, from.or(time.Now()), n.is)
	}
	flags := c.Flags()
	flags.StringVarP(&file, "file", "f", defaultFile, "configuration `file`")
	flags.VarP(&n, "number", "n", "how `many` ticks, over all jobs (default 5)")
	flags.Var(&from, "from", "as seen at this `time` (default now)")
	return c
}

func (p *program) nextTicks(cfg *config.Config, names []string, now time.Time, n int) error {
	ticks := []nextView{}
	for _, job := range cfg.Jobs {
		if len(names) > 0 && !slices.Contains(names, job.Name) {
			continue
		}
		some, err := ticksOf(job, now, n)
		if err != nil {
			return fmt.Errorf("job %q: %w", job.Name, err)
		}
		ticks = append(ticks, some...)
	}
	slices.SortStableFunc(ticks, func(a, b nextView) int { return a.At.Compare(b.At) })
	ticks = ticks[:min(n, len(ticks))]
	if len(ticks) == 0 {
		p.say("none of these jobs is ever due; they run by hand: lockkeeper jobs run")
		if p.forPeople() {
			return nil
		}
	}
	return p.write(ticks, func(w io.Writer, _ bool) { writeTicks(w, ticks, now, "", true) })
}
