package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func (p *program) initRoot() *cobra.Command {
	f := &jobsFile{}
	c := p.command(&cobra.Command{
		Use:   "init",
		Short: "Make the root and its rooms in ZooKeeper, as an operator",
		Long: `Make the root and what is right below it, each with the access control list
that the configuration gives it. What is there already stays as it is: lockkeeper
doctor says which lists differ, and how to set them.

It takes an operator where zookeeper.contenders or zookeeper.readers say who may
do what: nobody else may make these nodes. Operators' daemons and commands do it
by themselves when they first write. Run it before ZooKeeper can be reached by others, to be
sure that nobody else has made the root. docs/security.md says who can do what.`,
		Example: `  lockkeeper init -f lockkeeper.yaml --zk-digest-file ana.digest`,
	}, nil, func(c *cobra.Command, _ []string) error {
		_, cfg, err := p.jobsConfig(c, *f)
		if err != nil {
			return err
		}
		return p.withClient(c, cfg, func(ctx context.Context, client *recipes.Client) error {
			if err := client.MakeRoot(ctx); err != nil {
				return err
			}
			for _, room := range cfg.Rooms() {
				_, _ = fmt.Fprintln(p.stdout, printable(room))
			}
			return nil
		})
	})
	f.add(c)
	return c
}
