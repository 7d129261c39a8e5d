package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func (p *program) initRoot() *cobra.Command {
	f := &jobsFile{}
	c := p.command(&cobra.Command{
		Use:   "init",
		Short: "Make the root and its rooms in ZooKeeper, as an operator",
		Long: `Make the root and, where zookeeper.contenders or zookeeper.readers say who may do
what, all that is right below it, each node with the access control list that the
configuration gives it. The lists of who may do what are left in ROOT/identities for
all other clients: these need their own credentials and nothing else. With
zookeeper.ensembles it does so on each.

It says of each node whether it was made, was there, or was renewed (new lists in
it). An access control list that differs stays as it is: lockkeeper doctor prints the
commands that set it right.

It takes an operator where there are lists: no one else may make these nodes.
Operators' daemons and commands make what is missing when they first write. Run it before
ZooKeeper can be reached by others, to be sure that no one else has made the root.
docs/security.md says who can do what.

Exit code 75 if ZooKeeper does not answer; 78 without the right, and where the access
control list of a node differs.`,
		Example: `  lockkeeper init -f lockkeeper.yaml --zk-digest-file ana.digest
  lockkeeper init -o json | jq -r '.[] | select(.differs) | .node'`,
	}, nil, func(c *cobra.Command, _ []string) error {
		cfg, client, err := p.jobsConfig(c, *f)
		if err != nil {
			return err
		}
		return p.makeRoots(c, cfg, client)
	})
	f.add(c)
	return c
}

// An initView is what init has found or made.
type initView struct {
	Ensemble string `json:"ensemble,omitempty"` // "" if there is one alone
	Node     string `json:"node"`
	State    string `json:"state"` // made, there, renewed
	Differs  string `json:"differs,omitempty"`
}

// makeRoots makes the root, and those of the file's other ensembles. cfg may be nil.
func (p *program) makeRoots(c *cobra.Command, cfg *config.Config, client lock.Config) error {
	views := []initView{}
	for _, e := range ensemblesOf(cfg, client) {
		err := p.withClient(c, e.config, func(ctx context.Context, client *lock.Client) error {
			nodes, err := client.Init(ctx)
			for _, n := range nodes {
				views = append(views, initView{Ensemble: e.name, Node: n.Path, State: string(n.State), Differs: n.Differs})
			}
			return err
		})
		if err != nil {
			if len(views) > 0 {
				_ = p.writeInit(views)
			}
			return e.explain(err)
		}
	}
	if err := p.writeInit(views); err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(slices.Clone(views), func(v initView) bool { return v.Differs == "" })); n > 0 {
		return &codeError{exitConfig, fmt.Sprintf("the access control lists of %s are not those of the configuration, "+
			"and were left as they are; lockkeeper doctor prints the commands that set them right", words.Count(n, "node"))}
	}
	return nil
}

func (p *program) writeInit(views []initView) error {
	return p.write(views, func(w io.Writer, _ bool) {
		for i, v := range views {
			if v.Ensemble != "" && (i == 0 || views[i-1].Ensemble != v.Ensemble) {
				_, _ = fmt.Fprintf(w, "ensemble %s:\n", v.Ensemble)
			}
			node := v.Node
			if v.Differs != "" {
				node += " differs: " + v.Differs
			}
			row(w, v.State, node)
		}
	})
}
