package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type doctorFlags struct {
	file      string
	readOnly  yes
	timeout   duration
	adminPort port
}

func (p *program) doctor() *cobra.Command {
	f := &doctorFlags{adminPort: port{is: doctor.DefaultAdminPort}}
	c := p.command(&cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with ZooKeeper, its nodes and the configuration, and what to do",
		Long: `Say what is wrong with ZooKeeper, its nodes and the configuration, and what to do.

Each server of the connect string is asked on its own, by four-letter words or
its admin server: is it there, which version, who leads, does a majority follow,
how fast is it, which session timeouts does it grant, what is its clock. Then the
nodes below the root: who may change them, what does not belong there, what has
grown too large. Then the configuration file, Temporal if the file has it, and this
machine. It works best when nothing else does.

  ok        as it should be
  warning   it works, but not as well or as safely as it could
  problem   it does not work, or will not for long
  skipped   it could not be seen

Nothing is changed. To see how long writes take and what the time is at the
servers, nodes of its own are created and deleted at once; --read-only leaves that
out. The file is ` + defaultFile + ` if there is one; what the environment says of
ZooKeeper counts before it, and flags before both.

Exit code 1 if there are problems, 78 for wrong flags.`,
		Example: `  lockkeeper doctor --zk zk1:2181,zk2:2181,zk3:2181
  lockkeeper doctor -f /etc/lockkeeper/lockkeeper.yaml --read-only
  lockkeeper doctor -o json | jq -r '.findings[] | select(.result == "problem") | .do'`,
	}, nil, func(c *cobra.Command, _ []string) error { return p.examine(c, f) })
	flags := c.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "configuration `file` (default "+defaultFile+", if it is there)")
	flags.VarPF(&f.readOnly, "read-only", "", "write nothing").NoOptDefVal = "true"
	f.timeout.positive = "10s"
	flags.Var(&f.timeout, "timeout", "how long all of it may take (default 10s)")
	flags.Var(&f.adminPort, "admin-port", "where the admin servers of ZooKeeper listen")
	return c
}

// port is the number of a TCP port.
type port struct {
	is  int
	bad string
}

func (v *port) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	*v = port{is: int(n)}
	if err != nil || n == 0 {
		v.bad = fmt.Sprintf("%q is no port; write a number from 1 to 65535", s)
	}
	return nil
}

func (v *port) String() string  { return strconv.Itoa(v.is) }
func (v *port) Type() string    { return "port" }
func (v *port) problem() string { return v.bad }

func (p *program) examine(c *cobra.Command, f *doctorFlags) error {
	o := doctor.Options{
		AdminPort: f.adminPort.is, File: f.file, ReadOnly: f.readOnly.is, Timeout: f.timeout.or(doctor.DefaultTimeout),
	}
	if o.File == "" {
		if _, err := os.Stat(defaultFile); !errors.Is(err, fs.ErrNotExist) {
			o.File = defaultFile
		}
	}
	if o.File != "" && len(p.problems) == 0 {
		o.Config, o.ConfigError = config.Load(o.File, config.Options{})
	}
	var cfg lock.Config
	if o.Config != nil {
		cfg = o.Config.Client
	}
	p.applyZooKeeper(&cfg)
	p.problems.addRequest(cfg.Validate(), zookeeperFlag)
	if err := p.usage(c); err != nil {
		return err
	}
	o.Client = cfg
	o.Secrets = p.zookeeper.secrets()
	ctx, stop := untilSignal(c.Context())
	defer stop()
	report := doctor.Examine(ctx, o)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	view := newDoctorView(report)
	if err := p.writePage(view, func(pg page) { writeDoctor(pg, view) }); err != nil {
		return err
	}
	if view.Problems > 0 {
		return &codeError{code: exitFailed}
	}
	return nil
}

// doctorView is a report in JSON and YAML. The names of fields are a promise to
// scripts.
type doctorView struct {
	Problems int           `json:"problems"`
	Warnings int           `json:"warnings"`
	OK       int           `json:"ok"`
	Skipped  int           `json:"skipped"`
	Took     int64         `json:"took_ms"`
	Findings []findingView `json:"findings"`
}

type findingView struct {
	Result  string `json:"result"` // ok, warning, problem or skipped
	Check   string `json:"check"`
	Subject string `json:"subject"`
	Found   string `json:"found"`
	Do      string `json:"do"`
}

func newDoctorView(r doctor.Report) doctorView {
	v := doctorView{
		Problems: r.Count(doctor.Problem), Warnings: r.Count(doctor.Warning), OK: r.Count(doctor.OK),
		Skipped: r.Count(doctor.Skipped), Took: r.Took.Milliseconds(), Findings: make([]findingView, len(r.Findings)),
	}
	for i, f := range r.Findings {
		v.Findings[i] = findingView{Result: string(f.Result), Check: f.Check, Subject: f.Subject, Found: f.Found, Do: f.Do}
	}
	return v
}

func writeDoctor(pg page, v doctorView) {
	g := pg.grid()
	g.row("RESULT", "CHECK", "FOUND")
	for _, f := range v.Findings {
		found := f.Found
		if f.Subject != "" {
			found = f.Subject + ": " + found
		}
		g.row(f.Result, f.Check, found)
		switch {
		case f.Do == "":
		case doctor.IsCommand(f.Do):
			g.row("", "", "do, in zkCli.sh:")
			g.whole("  " + f.Do)
		default:
			g.row("", "", "do: "+f.Do)
		}
	}
	g.draw()
	pg.line("")
	pg.paragraph("", "%s, %s, %d ok, %d skipped",
		words.Count(v.Problems, "problem"), words.Count(v.Warnings, "warning"), v.OK, v.Skipped)
}
