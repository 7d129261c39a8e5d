package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// man writes the manual pages, for those who make packages.
func (p *program) man() *cobra.Command {
	return p.command(&cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Long: `Write the manual pages into a directory, which is made if there is none:
lockkeeper.1, lockkeeper-exec.1 and so on.

Their date is that of SOURCE_DATE_EPOCH, or of the commit that this program was built
from, so that they are the same whenever they are written.`,
		Example: `  lockkeeper man /usr/local/share/man/man1`,
	}, []string{"DIR"}, func(c *cobra.Command, args []string) error {
		date, err := manDate(os.Getenv("SOURCE_DATE_EPOCH"), buildVersion())
		if err != nil {
			p.problems.add(err.Error())
		}
		if err := p.usage(c); err != nil {
			return err
		}
		dir := args[0]
		if err := os.MkdirAll(dir, 0o755); err != nil {
			text := fmt.Sprintf("directory %s cannot be made: %v; name one that you may write to", dir, withoutPath(err))
			return &codeError{exitConfig, text}
		}
		header := &doc.GenManHeader{
			Section: "1",
			Date:    &date,
			Source:  "Lockkeeper " + buildVersion().Version,
			Manual:  "Lockkeeper Manual",
		}
		if err := doc.GenManTree(manRoot(), header, dir); err != nil {
			return &codeError{
				exitConfig, fmt.Sprintf("the pages cannot be written: %v; name a directory that you may write to", err),
			}
		}
		return nil
	})
}

// manDate is the date in the pages' footers. It is never today's.
func manDate(epoch string, v versionView) (time.Time, error) {
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a whole number of seconds since 1970", epoch)
		}
		return time.Unix(seconds, 0).UTC(), nil
	}
	date, err := time.Parse(time.RFC3339, v.Time)
	if err != nil {
		return time.Time{}, fmt.Errorf("this program does not know the date of its commit; set SOURCE_DATE_EPOCH")
	}
	return date.UTC(), nil
}

// manRoot is a tree of commands of its own, whose texts are Markdown, which the pages are made from.
func manRoot() *cobra.Command {
	root := (&program{}).root()
	root.DisableAutoGenTag = true // no line that names the generator and a date
	root.SetHelpCommand(&cobra.Command{Use: "no-help", Hidden: true})
	var convert func(c *cobra.Command)
	convert = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		c.Short, c.Long = escapeMarkdown(c.Short), markdown(c.Long)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if c == root || root.PersistentFlags().Lookup(f.Name) != f {
				describeFlag(f)
			}
		})
		for _, sub := range c.Commands() {
			convert(sub)
		}
	}
	convert(root)
	return root
}

// describeFlag lets f appear as --name=VALUE, with its default behind what it is for, as in a help.
func describeFlag(f *pflag.Flag) {
	name, usage := pflag.UnquoteUsage(f)
	if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) && !strings.Contains(usage, "default") {
		usage += " (default " + f.DefValue + ")"
	}
	f.Usage = escapeMarkdown(usage)
	if f.NoOptDefVal == "" {
		f.DefValue = "*" + name + "*"
		f.Value = named{f.Value}
	}
}

// named is a value whose DefValue is a name, which stands without quotes.
type named struct{ pflag.Value }

// Type says nothing, so that the generator adds no quotes.
func (named) Type() string { return "" }

// markdown makes Markdown of the text of a help: paragraphs stay, and what is indented keeps its lines.
func markdown(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		var b strings.Builder
		inside := false
		for line := range strings.SplitSeq(paragraph, "\n") {
			indented := strings.HasPrefix(line, "  ")
			if indented != inside {
				b.WriteString("\n```\n")
				inside = indented
			}
			if !indented {
				line = escapeMarkdown(line)
			}
			b.WriteString(line + "\n")
		}
		if inside {
			b.WriteString("```\n")
		}
		paragraphs[i] = strings.Trim(b.String(), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"<", `\<`, ">", `\>`, "#", `\#`, "~", `\~`, "|", `\|`,
)

func escapeMarkdown(text string) string { return markdownEscapes.Replace(text) }
