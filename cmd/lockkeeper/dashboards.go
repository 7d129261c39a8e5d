package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/observability/dashboards"
)

func (p *program) dashboards() *cobra.Command {
	c := &cobra.Command{
		Use:   "dashboards",
		Short: "Write dashboards for Grafana, and rules for Prometheus",
		Long: `Write dashboards for Grafana, and recording rules and alerts for Prometheus, about
what the daemons and programs of this version measure.

docs/observability.md says how they are imported, and lists the alerts.`,
	}
	p.group(c)
	c.AddCommand(p.dashboardsLs(), p.dashboardsPrint(), p.dashboardsWrite())
	return c
}

type dashboardView struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Bytes int    `json:"bytes"`
}

func (p *program) dashboardsLs() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "ls",
		Short: "List the files that there are",
	}, nil, func(c *cobra.Command, _ []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		files, err := dashboards.Files()
		if err != nil {
			return err
		}
		views := make([]dashboardView, len(files))
		for i, f := range files {
			views[i] = dashboardView{Name: f.Name, About: f.About, Bytes: len(f.Text)}
		}
		return p.write(views, func(w io.Writer, _ bool) {
			row(w, "NAME", "WHAT IT IS")
			for _, v := range views {
				row(w, v.Name, v.About)
			}
		})
	})
}

func (p *program) dashboardsPrint() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "print NAME",
		Short: "Print one of the files",
		Example: `  lockkeeper dashboards print contention > contention.json
  lockkeeper dashboards print rules | promtool check rules`,
	}, []string{"NAME"}, func(c *cobra.Command, args []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		files, err := dashboards.Files()
		if err != nil {
			return err
		}
		var names []string
		for _, f := range files {
			name := strings.TrimSuffix(f.Name, filepath.Ext(f.Name))
			if args[0] == f.Name || args[0] == name {
				_, err := p.stdout.Write(f.Text)
				return err
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return &codeError{exitConfig, fmt.Sprintf("there is no file %q; write %s or %s",
			args[0], strings.Join(names[:len(names)-1], ", "), names[len(names)-1])}
	})
}

func (p *program) dashboardsWrite() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "write DIR",
		Short: "Write all of the files into a directory",
		Long: `Write all of the files into a directory, which is made if there is none. Files of
these names are replaced; the others are left alone.`,
		Example: `  lockkeeper dashboards write /etc/prometheus/lockkeeper`,
	}, []string{"DIR"}, func(c *cobra.Command, args []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		files, err := dashboards.Files()
		if err != nil {
			return err
		}
		dir := args[0]
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return &codeError{exitConfig, fmt.Sprintf("directory %s cannot be made: %v; name one that you may write to",
				dir, withoutPath(err))}
		}
		for _, f := range files {
			name := filepath.Join(dir, f.Name)
			if err := os.WriteFile(name, f.Text, 0o644); err != nil {
				return &codeError{exitConfig, fmt.Sprintf("%s cannot be written: %v; name a directory that you may write to",
					name, withoutPath(err))}
			}
			_, _ = fmt.Fprintln(p.stdout, printable(name))
		}
		return nil
	})
}
