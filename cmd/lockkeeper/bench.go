package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/doctor/throughput"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type benchFlags struct {
	clients counts
	length  duration
	yes     yes
	file    jobsFile
}

func (p *program) bench() *cobra.Command {
	f := &benchFlags{}
	c := p.command(&cobra.Command{
		Use:   "bench",
		Short: "Measure how many locks this ZooKeeper takes and gives back",
		Long: `Measure how many locks this ZooKeeper takes and gives back, in cycles per second
of all clients together, each of which has a session of its own.

  create+delete  a node is created and deleted: what any lock has to write
  own lock       every client has a lock of its own: acquire, release
  hand-over      all clients want one lock; from one's release to the next's grant
  preemption     an important request meets a holder in another session

OF RAW is an own lock relative to create+delete with as many clients: it tells how
much of the time is ZooKeeper's. Percentiles are p50/p99. Below are figures of
another lock by kind of disk, to see which of them this ZooKeeper resembles.

It loads the servers as much as they can bear, and holders of locks there may
feel it: while others hold locks, it asks first, or wants --yes. What it makes is
under a node of its own below the root, and removed afterwards, also after a
signal.

Exit code 1 if nothing was measured, 75 if ZooKeeper does not answer, 78 for wrong
flags, or if it refuses access; 128+n for signal n.`,
		Example: `  lockkeeper bench --zk zk1:2181,zk2:2181,zk3:2181
  lockkeeper bench --for 1m --clients 1,64
  lockkeeper bench --yes -o json | jq '.rows[] | select(.measure == "own lock") | .per_second'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.measure(c, f) })
	flags := c.Flags()
	flags.Var(&f.clients, "clients",
		"how many clients work at a time, one after the other, separated by commas (default 1,8,32)")
	f.length.positive = "10s"
	flags.Var(&f.length, "for", "how long it measures (default 10s)")
	flags.VarPF(&f.yes, "yes", "", "do not ask, though others hold locks").NoOptDefVal = "true"
	f.file.add(c)
	return c
}

// counts are how many clients work at a time.
type counts struct {
	are []int
	bad string
}

func (v *counts) Set(s string) error {
	*v = counts{}
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > throughput.MostClients {
			v.bad = fmt.Sprintf("%q is not a number from 1 to %d; write for example 1,8,32", part, throughput.MostClients)
		}
		v.are = append(v.are, n)
	}
	return nil
}

func (v *counts) String() string  { return "" }
func (v *counts) Type() string    { return "numbers" }
func (v *counts) problem() string { return v.bad }
func (v *counts) forget()         { *v = counts{} }

func (p *program) measure(c *cobra.Command, f *benchFlags) error {
	_, cfg, err := p.jobsConfig(c, f.file)
	if err != nil {
		return err
	}
	held := 0
	if err := p.inspectWith(c.Context(), cfg, func(ctx context.Context, client *lock.Client) error {
		states, _, err := client.Locks(ctx)
		for _, s := range states {
			if s.Held() {
				held++
			}
		}
		return err
	}); err != nil {
		return err
	}
	if held > 0 && !f.yes.is {
		if err := p.ask(c, held); err != nil {
			return err
		}
	}
	o := throughput.Options{Client: cfg, Clients: f.clients.are, For: f.length.or(throughput.DefaultFor)}
	p.say("measuring for %s", human(o.For))
	ctx, stop := untilSignal(c.Context())
	defer stop()
	result, err := throughput.Measure(ctx, o)
	if err != nil {
		return err
	}
	view := newBenchView(result)
	return p.writePage(view, func(pg page) { writeBench(pg, view) })
}

// ask returns an error unless the operator at the terminal agrees.
func (p *program) ask(c *cobra.Command, held int) error {
	what := words.Count(held, "lock") + " under this root held by others, who may feel the load"
	if held == 1 {
		what = strings.Replace(what, "lock under this root held", "lock under this root is held", 1)
	} else {
		what = strings.Replace(what, "locks under this root held", "locks under this root are held", 1)
	}
	if terminalColumns(p.stdin) > 0 {
		_, _ = fmt.Fprintf(p.stderr, "lockkeeper: %s; measure all the same? [y/N] ", printable(what))
		answer, _ := bufio.NewReader(p.stdin).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
			return nil
		}
		return &codeError{code: exitFailed, text: "nothing was measured"}
	}
	return &usageError{command: c.CommandPath(), problems: problems{what + "; add --yes to measure all the same"}}
}

// benchView is what was measured in JSON and YAML. The names of fields are a
// promise to scripts.
type benchView struct {
	Took      int64          `json:"took_ms"`
	Resembles *string        `json:"resembles"` // a kind of disk; null: one client alone was not measured
	Rows      []benchRowView `json:"rows"`
	Disks     []diskView     `json:"disks"`
}

type benchRowView struct {
	Measure   string          `json:"measure"`
	Clients   int             `json:"clients"`
	Cycles    int             `json:"cycles"`
	PerSecond float64         `json:"per_second"`
	OfRaw     *float64        `json:"of_raw"` // null: does not compare
	Steps     []benchStepView `json:"steps"`
}

type benchStepView struct {
	Step string `json:"step"`
	P50  int64  `json:"p50_us"`
	P99  int64  `json:"p99_us"`
}

type diskView struct {
	Disk    string   `json:"disk"`
	Windows *float64 `json:"windows_per_second"` // null: not known
	Linux   float64  `json:"linux_per_second"`
}

func newBenchView(r throughput.Result) benchView {
	v := benchView{Took: r.Took.Milliseconds()}
	if kind := r.Resembles(); kind != "" {
		v.Resembles = &kind
	}
	for _, row := range r.Rows {
		one := benchRowView{
			Measure: row.Measure, Clients: row.Clients, Cycles: row.Cycles, PerSecond: rounded(row.PerSecond, 10),
			OfRaw: unlessZero(rounded(row.OfRaw, 100)), Steps: []benchStepView{},
		}
		for _, s := range row.Steps {
			one.Steps = append(one.Steps, benchStepView{s.Name, s.P50.Microseconds(), s.P99.Microseconds()})
		}
		v.Rows = append(v.Rows, one)
	}
	for _, d := range throughput.Disks() {
		v.Disks = append(v.Disks, diskView{d.Kind, unlessZero(d.Windows), d.Linux})
	}
	return v
}

func rounded(n, parts float64) float64 { return math.Round(n*parts) / parts }

func unlessZero(n float64) *float64 {
	if n == 0 {
		return nil
	}
	return &n
}

func writeBench(pg page, v benchView) {
	g := pg.grid()
	g.row("MEASURE", "CLIENTS", "PER SECOND", "OF RAW", "P50/P99")
	for _, r := range v.Rows {
		steps := make([]string, len(r.Steps))
		for i, s := range r.Steps {
			steps[i] = fmt.Sprintf("%s %s/%s ms", s.Step, inMillis(s.P50), inMillis(s.P99))
		}
		ofRaw := "-"
		if r.OfRaw != nil {
			ofRaw = fmt.Sprintf("%.2f", *r.OfRaw)
		}
		g.row(r.Measure, r.Clients, fmt.Sprintf("%.0f", r.PerSecond), ofRaw, strings.Join(steps, ", "))
	}
	g.draw()

	pg.line("")
	g = pg.grid()
	g.row("DISK", "WINDOWS", "LINUX", "")
	for _, d := range v.Disks {
		windows, like := "-", ""
		if d.Windows != nil {
			windows = fmt.Sprintf("%.0f", *d.Windows)
		}
		if v.Resembles != nil && *v.Resembles == d.Disk {
			like = "this ZooKeeper is nearest to it"
		}
		g.row(d.Disk, windows, fmt.Sprintf("%.0f", d.Linux), like)
	}
	g.draw()
	pg.paragraph("", "Locks per second of another lock, by what the servers' transaction log is on; "+
		"to compare with the own lock of 1 client.")
}

func inMillis(microseconds int64) string {
	d := time.Duration(microseconds) * time.Microsecond
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}
