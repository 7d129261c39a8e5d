package main

import (
	"io"

	"github.com/spf13/cobra"
)

// completion prints the scripts with which a shell completes command lines: cobra's own. They ask the
// program itself, by its hidden command __complete, what may stand next.
func (p *program) completion() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion",
		Short: "Print the script with which a shell completes command lines",
		Long: `Print the script with which a shell completes command lines. It completes commands,
flags and their values, and the names of scopes, jobs, overrides and groups, which it
looks up in ZooKeeper and in ./lockkeeper.yaml.

Packages and archives have these scripts as files.`,
		Example: `  # bash, with the package bash-completion
  lockkeeper completion bash > /etc/bash_completion.d/lockkeeper

  # zsh
  lockkeeper completion zsh > "${fpath[1]}/_lockkeeper"

  # fish
  lockkeeper completion fish > ~/.config/fish/completions/lockkeeper.fish

  # PowerShell
  lockkeeper completion powershell >> $PROFILE`,
	}
	p.group(c)
	for _, shell := range []struct {
		name  string
		write func(root *cobra.Command, w io.Writer) error
	}{
		{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"zsh", (*cobra.Command).GenZshCompletion},
		{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
		{"powershell", (*cobra.Command).GenPowerShellCompletionWithDesc},
	} {
		c.AddCommand(p.command(&cobra.Command{
			Use:   shell.name,
			Short: "Print the script for " + shell.name,
		}, nil, func(c *cobra.Command, _ []string) error {
			if err := p.usage(c); err != nil {
				return err
			}
			return shell.write(c.Root(), p.stdout)
		}))
	}
	return c
}
