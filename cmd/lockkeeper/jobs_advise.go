package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/timings"
)

func (p *program) jobsAdvise() *cobra.Command {
	var (
		file string
		dirs directories
	)
	c := &cobra.Command{
		Use:   "advise [JOB...]",
		Short: "Propose lease, cleanup and waiting timeouts from what jobs really took",
		Long: `Propose lease, cleanup and waiting timeouts of all jobs of a configuration file,
or of some of them, from what their locks really took in the last five weeks.

Daemons measure that if the file has a state_dir, each in a file of its own in that
directory of its machine. Copy the directories together, or name several, to
have the advice on all daemons' runs.

  ADVICE     keep, raise, lower, or unknown: there are less than 20 samples
  SAMPLES    lease_timeout: holds; cleanup_timeout: cleanups, from the moment the
             holder was preempted; waiting_timeout: waits for a holder to go

With -o wide also the 99.9th percentile, and how many samples kept the timeout.
Percentiles are at most 4 % off. ZooKeeper is not asked, and nothing is changed.

Exit code 78 for a file that cannot be used, or a job that it does not have.`,
		Example: `  lockkeeper jobs advise
  lockkeeper jobs advise compact hotfix -f /etc/lockkeeper/lockkeeper.yaml -o wide
  lockkeeper jobs advise --state-dir from-host-1 --state-dir from-host-2 -o json | jq '.[] | select(.advice == "raise")'`,
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
		if len(dirs) == 0 && cfg.StateDir != "" {
			dirs = []string{cfg.StateDir}
		}
		if len(dirs) == 0 {
			p.problems.add(
				file + " has no state_dir, so its daemons measure nothing; write one, or name a directory with --state-dir")
			return p.usage(c)
		}
		return p.adviseJobs(cfg, args, dirs)
	}
	flags := c.Flags()
	flags.StringVarP(&file, "file", "f", defaultFile, "configuration `file`")
	flags.Var(&dirs, "state-dir",
		"`directory` with what a daemon measured; several times for several (default state_dir of the file)")
	return c
}

// directories are several, each one once: what is in it must not count twice.
type directories []string

func (v *directories) Set(s string) error {
	if s = filepath.Clean(s); !slices.Contains(*v, s) {
		*v = append(*v, s)
	}
	return nil
}

func (v *directories) String() string { return strings.Join(*v, ", ") }
func (v *directories) Type() string   { return "directory" }
func (v *directories) forget()        { *v = nil }

func (p *program) adviseJobs(cfg *config.Config, names, dirs []string) error {
	stats, unread := timings.Read(dirs...)
	for _, err := range unread {
		p.say("left out: %v", err)
	}
	if len(stats) == 0 {
		p.say("nothing was measured in %s in the last five weeks; a daemon writes there once a minute if its file has "+
			"this state_dir", strings.Join(dirs, ", "))
	}
	var requirements []lockguard.Requirement
	for _, job := range cfg.Jobs {
		if len(names) == 0 || slices.Contains(names, job.Name) {
			requirements = append(requirements, job.Owned()...)
		}
	}
	views := []adviceView{}
	for _, proposal := range timings.Advise(stats, requirements, cfg.Client.SessionTimeout) {
		views = append(views, newAdviceView(proposal))
	}
	return p.write(views, func(w io.Writer, wide bool) { writeAdvice(w, views, wide) })
}

// adviceView is a proposal in JSON and YAML. The names of fields are a promise to
// scripts.
type adviceView struct {
	Job      string `json:"job"`
	Scope    string `json:"scope"`
	Timeout  string `json:"timeout"`     // the key in the file
	Declared *int64 `json:"declared_ms"` // null: unset
	Advice   string `json:"advice"`      // keep, raise, lower or unknown
	Proposed *int64 `json:"proposed_ms"` // null: none
	Samples  uint64 `json:"samples"`
	Kept     uint64 `json:"kept"`
	P50      int64  `json:"p50_ms"`
	P99      int64  `json:"p99_ms"`
	P999     int64  `json:"p999_ms"`
	Max      int64  `json:"max_ms"`
	Why      string `json:"why"`
}

func newAdviceView(p timings.Proposal) adviceView {
	e := p.Evidence
	return adviceView{
		Job: p.Owner, Scope: p.Scope, Timeout: p.Timeout, Declared: inMilliseconds(p.Declared), Advice: string(p.Verdict),
		Proposed: inMilliseconds(p.Proposed), Samples: e.Samples, Kept: e.Kept, P50: e.P50.Milliseconds(),
		P99: e.P99.Milliseconds(), P999: e.P999.Milliseconds(), Max: e.Max.Milliseconds(), Why: p.Why,
	}
}

func inMilliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}

func writeAdvice(w io.Writer, views []adviceView, wide bool) {
	head := []any{"JOB", "SCOPE", "TIMEOUT", "DECLARED", "ADVICE", "PROPOSED", "SAMPLES", "P50", "P99", "MAX"}
	if wide {
		head = append(head, "P99.9", "KEPT")
	}
	row(w, append(head, "WHY")...)
	for _, v := range views {
		seen := func(milliseconds int64) string {
			if v.Samples == 0 {
				return "-"
			}
			return human(time.Duration(milliseconds) * time.Millisecond)
		}
		cells := []any{
			v.Job, v.Scope, v.Timeout, asWritten(v.Declared), v.Advice, asWritten(v.Proposed), v.Samples, seen(v.P50),
			seen(v.P99), seen(v.Max),
		}
		if wide {
			cells = append(cells, seen(v.P999), v.Kept)
		}
		row(w, append(cells, v.Why)...)
	}
}

// asWritten is a duration as the file has it: 1m30s, 24h.
func asWritten(milliseconds *int64) string {
	if milliseconds == nil {
		return "-"
	}
	text := (time.Duration(*milliseconds) * time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
