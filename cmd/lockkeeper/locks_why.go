package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type whyFlags struct {
	file  jobsFile
	ifRun string
}

func (p *program) locksWhy() *cobra.Command {
	f := &whyFlags{}
	c := &cobra.Command{
		Use:   "why [SCOPE|JOB]",
		Short: "Say why something waits: who is in the way, what happens next, and when",
		Long: `Say in words who holds a lock, since when and how much of its lease is used, who
waits for it in which order, whom an override keeps out of the queue, and what
happens next and when, by itself: who is preempted, who takes the lock by force, who gives up. Then
which overrides play a part, which approvals are open, who lost the lock lately,
and who waits for each other in a cycle, with the command that ends it.

With the name of a job (the owner of requests) instead: what each of its requests
waits for, what that waits for, and so on to the end. A lock of that name goes
before a job of that name. With zookeeper.ensembles in the file a lock is looked for
on the ensemble that has it, a job on all of them.

With --if-run: what would happen if a job of the configuration file were started
now, with the overrides in force.

Times are those of the ZooKeeper servers, in UTC. What is foreseen comes at the
latest then, unless a request of higher priority comes: a release brings it forward.

Exit code 75 if ZooKeeper does not answer, also if an ensemble does not on which the
job may have locks; 78 for a scope or a job that cannot be.`,
		Example: `  lockkeeper locks why cluster/orders
  lockkeeper locks why nightly-reindex
  lockkeeper locks why --if-run hotfix-migrate -f lockkeeper.yaml
  lockkeeper locks why cluster/orders -o json | jq '.lock.waiters[0].prospect'`,
	}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error { return p.why(c, f, args) }
	flags := c.Flags()
	f.file.add(c)
	flags.StringVar(&f.ifRun, "if-run", "",
		"say what would happen if this `job` of the configuration file were started now")
	return c
}

func (p *program) why(c *cobra.Command, f *whyFlags, args []string) error {
	if f.ifRun != "" {
		p.checkArgs(c, args, nil)
		return p.whyIfRun(c, f)
	}
	p.checkArgs(c, args, []string{"SCOPE or JOB"})
	if len(args) == 1 {
		_, err := lock.EscapeScope(args[0])
		p.problems.addRequest(err, func(string) string { return "SCOPE" })
	}
	cfg, reach, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	facts := &whyFacts{}
	all := ensemblesOf(cfg, reach)
	own := all.of(cfg, args[0])
	err = p.withEnsembles(c.Context(), all, func(ctx context.Context, all ensembles) error {
		return facts.look(ctx, all, all.of(cfg, args[0]), cfg, args[0])
	})
	if err != nil {
		return err
	}
	return errors.Join(p.writePage(newWhyView(facts), func(pg page) {
		if facts.lock() != nil {
			own.write(pg)
		} else {
			all.write(pg)
		}
		writeWhy(pg, facts)
	}), facts.missing)
}
