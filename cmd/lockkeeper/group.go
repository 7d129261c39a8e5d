package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func (p *program) lockGroup() *cobra.Command {
	c := &cobra.Command{
		Use:   "group",
		Short: "Spread the locks of a group over those who join",
	}
	p.group(c)
	c.AddCommand(p.groupJoin(), p.groupLs(), p.groupShow(), p.groupPlan())
	return c
}

func (p *program) groupLs() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "ls",
		Short: "List all lock groups",
		Long: `List all lock groups, one line each: how many of their locks are held, who is
there, who decides, and how many locks have changed hands by the last plan and
by all of them.`,
		Example: `  lockkeeper group ls
  lockkeeper group ls -o json | jq -r '.[] | select(.strategy_error != "") | .name'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.listGroups(c, file) })
	file.add(c)
	return c
}

func (p *program) groupShow() *cobra.Command {
	var file jobsFile
	c := p.command(&cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds which lock of a group",
		Long: `Show who holds which lock of a group, how many each participant has, and how
many locks have changed hands.`,
		Example: `  lockkeeper group show lock-group
  lockkeeper group show lock-group -o wide`,
	}, []string{"NAME"}, func(c *cobra.Command, args []string) error { return p.showGroup(c, file, args) })
	file.add(c)
	return c
}

func (p *program) listGroups(c *cobra.Command, file jobsFile) error {
	var states []group.State
	var left []lock.Unreadable
	err := p.inspect(c, file, func(ctx context.Context, client *lock.Client) (err error) {
		states, left, err = group.All(ctx, client.Client)
		return err
	})
	if err != nil {
		return err
	}
	defer p.tellUnreadable(left)
	all := make([]views.Group, len(states))
	for i, state := range states {
		all[i] = views.NewGroup(state)
	}
	if len(states) == 0 && len(left) == 0 {
		p.say("there are no groups under this root; a group is listed once it has a member")
		if p.forPeople() {
			return nil
		}
	}
	return p.write(all, func(w io.Writer, wide bool) { writeGroups(w, all, wide) })
}

func (p *program) showGroup(c *cobra.Command, file jobsFile, args []string) error {
	if len(args) == 1 {
		_, err := lock.EscapeScope(args[0])
		p.problems.addRequest(err, func(string) string { return "NAME" })
	}
	var state group.State
	err := p.inspect(c, file, func(ctx context.Context, client *lock.Client) (err error) {
		state, err = group.StateOf(ctx, client.Client, args[0])
		return err
	})
	if err != nil {
		return err
	}
	defer p.tellUnreadable(state.Unreadable)
	view := views.NewGroup(state)
	return p.write(view, func(w io.Writer, wide bool) { writeGroup(w, view, wide) })
}

// groupSpec finds the group that is meant in a file.
func groupSpec(cfg *config.Config, name string) (group.Spec, error) {
	names := make([]string, len(cfg.Groups))
	for i, g := range cfg.Groups {
		if g.Name == name || name == "" && len(cfg.Groups) == 1 {
			return g, nil
		}
		names[i] = g.Name
	}
	what := fmt.Sprintf("--group: %s has no group %q; it has %s", cfg.File, name, strings.Join(names, ", "))
	switch {
	case len(names) == 0:
		what = cfg.File + " has no groups; write the section groups"
	case name == "":
		what = "--group is missing; " + cfg.File + " has " + strings.Join(names, ", ")
	}
	return group.Spec{}, &usageError{command: "lockkeeper group", problems: problems{what}}
}
