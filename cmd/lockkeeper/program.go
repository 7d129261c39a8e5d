package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
)

// run runs the program and returns its exit code.
func run(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	root := p.root()
	args = p.parse(root, args)
	root.SetArgs(args)
	return p.exit(root.ExecuteContext(context.Background()))
}

// A program is one call of lockkeeper.
type program struct {
	stdin          *os.File
	stdout, stderr io.Writer

	zookeeper zookeeperFlags
	output    choice
	logging   loggingFlags

	daemon config.Options // of the file of a daemon

	problems problems // of the command line and of the environment
	unclear  bool     // a flag was not known: an argument may be its value
}

func (p *program) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "lockkeeper",
		Short: "Locks with priorities for jobs and commands, kept in ZooKeeper",
		Long: `Lockkeeper runs scheduled jobs and shell commands under locks in ZooKeeper.
A more important request preempts the holder of a lock: the holder cleans up and
releases it.`,
		Example: `  lockkeeper exec --scope cluster/orders -- ./compact.sh
  lockkeeper run -f lockkeeper.yaml
  lockkeeper locks ls`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.CompletionOptions.DisableDefaultCmd = true // completion.go has ours
	c.SetOut(p.stdout)
	c.SetErr(p.stderr)
	c.SetUsageTemplate(usage)
	c.Version = buildVersion().Version // for --version

	flags := c.PersistentFlags()
	p.zookeeper.add(flags)
	p.output = choice{is: "table", of: []string{"table", "wide", "json", "yaml"}}
	flags.VarP(&p.output, "output", "o", "`format` of what locks, top, jobs, override, approvals, group, audit, "+
		"config explain, dashboards ls, doctor, init, bench, gc and version write: "+p.output.list())
	p.logging.add(flags)

	p.group(c)
	for _, part := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run something under locks:", []*cobra.Command{p.exec(), p.run(), p.lockGroup(), p.dev()}},
		{"See what happens, and change it:", []*cobra.Command{
			p.top(), p.locks(), p.jobs(), p.override(), p.approvals(), p.audit(),
		}},
		{"Check, before it happens:", []*cobra.Command{
			p.config(), p.initRoot(), p.doctor(), p.healthcheck(), p.bench(), p.gc(), p.dashboards(), p.version(),
		}},
		{"Set up your shell:", []*cobra.Command{p.completion()}},
	} {
		c.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, command := range part.commands {
			command.GroupID = part.title
			c.AddCommand(command)
		}
	}
	c.AddCommand(p.man())
	p.complete(c)
	return c
}

// alone marks a command that does something itself, and has others in it.
func alone(c *cobra.Command) { c.Annotations = map[string]string{"alone": "true"} }

// usage is what help says after the description.
const usage = `Usage:
{{- if or (not .HasAvailableSubCommands) .Annotations.alone}}
  {{.UseLine}}
{{- end}}
{{- if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND
{{- end}}
{{- if .Groups}}
{{- $all := .Commands}}
{{- range $part := .Groups}}

{{.Title}}
{{- range $all}}{{if and .IsAvailableCommand (eq .GroupID $part.ID)}}
  {{rpad .Name .NamePadding}} {{.Short}}
{{- end}}{{end}}
{{- end}}
{{- else if .HasAvailableSubCommands}}

Commands:
{{- range .Commands}}{{if and .IsAvailableCommand (ne .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}
{{- end}}{{end}}
{{- end}}
{{- if .HasExample}}

Examples:
{{.Example}}
{{- end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{- end}}
{{- if .HasAvailableInheritedFlags}}

Flags of all commands:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{- end}}
`

// group makes c a command that only has others in it.
func (p *program) group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 && len(p.problems) == 0 {
			return c.Help()
		}
		if len(args) > 0 && !p.unclear {
			text := fmt.Sprintf("unknown command %q", c.CommandPath()+" "+args[0])
			c.SuggestionsMinimumDistance = 2
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				text += fmt.Sprintf("; did you mean %q?", c.CommandPath()+" "+near[0])
			}
			p.problems.add(text)
		}
		return p.usage(c)
	}
}

// command lets c run do. names says which arguments there must be. do looks for
// what else is wrong with the command line, and then calls usage.
func (p *program) command(
	c *cobra.Command, names []string, do func(c *cobra.Command, args []string) error,
) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		p.checkArgs(c, args, names)
		return do(c, args)
	}
	return c
}

func (p *program) checkArgs(c *cobra.Command, args, names []string) {
	switch {
	case p.unclear:
	case len(args) < len(names):
		for _, name := range names[len(args):] {
			p.problems.add(fmt.Sprintf("%s is missing", name))
		}
	case len(args) > len(names):
		what := fmt.Sprintf("unexpected argument %s", strings.Join(quoteAll(args[len(names):]), " "))
		f := c.Flags().ShorthandLookup("f")
		if f != nil && f.Name == "file" && slices.ContainsFunc(args[len(names):], isNameOfConfiguration) {
			what += "; write -f in front of the name of the file"
		}
		p.problems.add(what)
	}
}

func isNameOfConfiguration(arg string) bool {
	return strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

// usage returns what is wrong with the command line, all of it.
func (p *program) usage(c *cobra.Command) error {
	if len(p.problems) == 0 {
		return nil
	}
	return &usageError{command: c.CommandPath(), problems: p.problems}
}

// say writes one line for people.
func (p *program) say(format string, args ...any) {
	_, _ = fmt.Fprintln(p.stderr, "lockkeeper: "+printable(fmt.Sprintf(format, args...)))
}
