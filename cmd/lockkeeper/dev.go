package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/examples/nightly"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// devFlags say what dev starts.
type devFlags struct {
	console string // where the console is; "" for the usual place
	listen  string
	dataDir string
	length  duration
	noJobs  yes
	unsafe  yes
	dir     string

	timeline string // the file of the picture; "" for none

	client  lock.Config
	scratch *scratch // where the credentials are that end with the run
}

const (
	defaultListen = "127.0.0.1:2181"

	// devRoot is where the jobs of dev live in a ZooKeeper that others use: the
	// ledger of a real job named backup must not meet theirs.
	devRoot = "/lockkeeper-dev"
)

func (p *program) dev() *cobra.Command {
	var d devFlags
	c := p.command(&cobra.Command{
		Use:   "dev",
		Short: "See it at work: ZooKeeper, daemons and jobs in one process, for development",
		Long: `See it at work, with nothing installed: a ZooKeeper-compatible server, two
daemons and three jobs that preempt each other, all in this process. For
development only: the server has no replicas, every client may connect, and it
keeps its data in memory, or in a file in --data-dir. The jobs' files are in
a temporary directory that is removed at the end, or in --dir. What a killed run
has left there is removed by the next one.

Every client that reaches the server may take locks on it without credentials, Go
programs too; with other credentials than those of the run they are refused. Its
operator is a user with a password made up for the run, so that overrides,
approvals and broken locks can be tried from another terminal: the beginning says
how. With --data-dir the password is kept there.

The server listens at ` + defaultListen + `, or at a free port when that is taken.
Other commands can use it at the same time, and so can any client of ZooKeeper.
LOCKKEEPER_ZK is not looked at.

A console for browsers is served at ` + defaultConsole + `, or at a free port when
that is taken: the beginning says where. It is read-only and has no sign-in,
and is for this machine alone. --console puts it elsewhere, or turns it off.

With --zk no server is started: the jobs run on that ZooKeeper, under
` + devRoot + ` unless --root says otherwise, with the credentials that are given
or none. What they leave there stays; the end says how to delete it.

Ctrl-C drains: running jobs may go on for a second, are then cancelled, and clean
up. Then all data is read again. A second signal, a second later or more, stops
at once.

Exit codes:
  0    nothing is corrupted
  1    something is, which --unsafe is there to show; or no job has run; or it
       could not start
  75   the ZooKeeper of --zk does not answer
  78   bad flags, or the ZooKeeper of --zk refuses access
  128+n  signal n came before it had started, or a second time`,
		Example: `  lockkeeper dev
  lockkeeper dev --for 25s
  lockkeeper dev --for 25s --timeline timeline.svg
  lockkeeper dev --for 25s --unsafe
  lockkeeper dev --no-jobs --data-dir ./zookeeper`,
	}, nil, func(c *cobra.Command, _ []string) error {
		if err := p.checkDev(c, &d); err != nil {
			return err
		}
		return p.develop(c.Context(), &d)
	})
	d.add(c, &p.zookeeper)
	return c
}

// add gives the flags to the command. Three flags of all commands mean something else here.
func (d *devFlags) add(c *cobra.Command, z *zookeeperFlags) {
	flags := c.Flags()
	flags.StringVar(&d.listen, "listen", "", "`address` of the server (see above)")
	flags.StringVar(&d.console, "console", "", "`address` of the console, or "+noConsole+" (see above)")
	flags.StringVar(&d.dataDir, "data-dir", "", "`directory` for its data (default: memory)")
	d.length.positive = "25s"
	flags.Var(&d.length, "for", "how long (default: until Ctrl-C)")
	flags.VarPF(&d.noJobs, "no-jobs", "", "the server only").NoOptDefVal = "true"
	flags.VarPF(&d.unsafe, "unsafe", "", "run the jobs without their locks").NoOptDefVal = "true"
	flags.StringVar(&d.dir, "dir", "", "new `directory` for the jobs' files")
	flags.StringVar(&d.timeline, "timeline", "", "`file` to draw in, as SVG, what happened to the jobs' lock")
	flags.StringVar(&z.servers, "zk", "", "ZooKeeper `servers` to use instead")
	flags.StringVar(&z.root, "root", "", "`node` that everything lives under")
	z.sessionTimeout.positive = "15s"
	flags.Var(&z.sessionTimeout, "zk-session-timeout", "see lockkeeper run (default 4s)")
}

// checkDev looks for flags that are wrong, or do not fit together.
func (p *program) checkDev(c *cobra.Command, d *devFlags) error {
	given := c.Flags().Changed
	for _, flag := range []string{"zk", "root", "data-dir", "dir", "timeline", "console"} {
		if given(flag) && c.Flag(flag).Value.String() == "" { // a variable that is not set
			p.problems.add(fmt.Sprintf("--%s is empty; write a value, or leave it out", flag))
		}
	}
	without := func(other string, flags ...string) {
		for _, flag := range flags {
			if given(flag) {
				p.problems.add(fmt.Sprintf("--%s does not go with --%s; leave one of them out", flag, other))
			}
		}
	}
	if given("zk") {
		without("zk", "listen", "data-dir", "no-jobs")
	} else {
		for _, flag := range []string{
			"zk-tls", "zk-ca-file", "zk-cert-file", "zk-key-file", "zk-digest-file", "zk-x509", "zk-operators", "zk-contenders",
			"zk-readers",
		} {
			if given(flag) {
				p.problems.add(fmt.Sprintf(
					"--%s: the server of dev takes no credentials but its own; name another one with --zk, or leave it out", flag))
			}
		}
	}
	if d.noJobs.is {
		without("no-jobs", "unsafe", "dir", "timeline")
	} else if d.unsafe.is {
		without("unsafe", "timeline") // without locks nothing happens to them
	}
	if d.timeline != "" {
		if at, err := os.Stat(filepath.Dir(d.timeline)); err != nil || !at.IsDir() {
			p.problems.add(fmt.Sprintf("--timeline: there is no directory %s; make it, or name another file",
				filepath.Dir(d.timeline)))
		}
	}
	if given("listen") {
		p.problems.addListen(d.listen)
	}
	if d.console != "" {
		p.problems.addConsole(d.console)
	}
	if d.dir != "" {
		if _, err := os.Lstat(d.dir); err == nil {
			p.problems.add(fmt.Sprintf("--dir: %s exists; name a new directory", d.dir))
		}
	}
	d.client = p.devClient(given("zk"))
	return p.usage(c)
}

func (p *problems) addListen(address string) {
	_, port, err := net.SplitHostPort(address)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		p.add(fmt.Sprintf("--listen: %q is not an address; write host:port, for example %s, with port 0 for a free one",
			address, defaultListen))
	}
}

// devClient returns how to reach ZooKeeper. The address of a server that is
// still to be started is missing.
func (p *program) devClient(elsewhere bool) lock.Config {
	var cfg lock.Config
	if elsewhere {
		p.zookeeper.root = cmp.Or(p.zookeeper.root, devRoot)
		cfg = p.clientConfig()
	} else {
		cfg.Root = cmp.Or(p.zookeeper.root, os.Getenv("LOCKKEEPER_ROOT"), "/lockkeeper")
		cfg.SessionTimeout = p.zookeeper.sessionTimeout.or(0)
		p.problems.addRequest(cfg.Validate(), zookeeperFlag)
	}
	cfg.Logger = p.quiet() // the timeline tells of outages
	return cfg
}

// develop runs everything until a signal comes or the time is over.
func (p *program) develop(ctx context.Context, d *devFlags) error {
	exports := new(telemetry) // the console alone exports nothing
	if !d.noJobs.is {
		exports = p.telemetry(ctx) // before a signal can come: where the log goes is settled here
	}
	ctx, again, stop := untilSignals(ctx, p.tellDrain, toStop()...)
	defer stop()
	if length := d.length.limit(); length != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *length)
		defer cancel()
	}
	var err error
	if d.scratch, err = newScratch(); err != nil {
		return err
	}
	defer d.scratch.remove()
	ended := make(chan error, 1)
	place := make(chan string, 1)
	go func() { ended <- d.verdict(ctx, p.show(ctx, d, exports, place)) }()
	select {
	case err := <-ended:
		return err
	case sig := <-again:
		select {
		case dir := <-place:
			p.say("the files of the jobs are left in %s", dir)
		default: // there are none yet
		}
		return &codeError{code: 128 + int(sig)}
	}
}

// verdict makes the error of show that of the program.
func (d *devFlags) verdict(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, syscall.EPIPE):
		// The reader has left, as that of head does. Elsewhere the signal ends
		// the program; here the jobs had to be drained first.
		return &codeError{code: 128 + int(syscall.SIGPIPE)}
	case errors.As(err, new(*jobs.SignalError)):
		return &codeError{code: exitCode(err)} // it had not begun
	case cause != nil && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("--for: %s was over before the jobs had begun; give it longer", d.length.d)
	}
	return err
}

// show runs the server, if one is wanted, and the jobs, until ctx ends. place
// gets the directory of their files.
func (p *program) show(ctx context.Context, d *devFlags, exports *telemetry, place chan<- string) (err error) {
	defer exports.end()
	colour := inColour(p.stdout, os.Getenv)
	about := banner{flags: d, zookeeper: &p.zookeeper, start: thisProgram()}
	if len(d.client.Servers) == 0 {
		server, taken, failure := startServer(d)
		if failure != nil {
			return failure
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		d.client.Servers = []string{server.Addr()}
		about.embedded, about.taken = true, taken
		if about.credentials, failure = d.secure(); failure != nil {
			return failure
		}
		if about.open = d.isOpen(ctx); !about.open {
			if about.closed, failure = d.makeRoot(ctx); failure != nil {
				return failure
			}
		}
	}
	page, err := p.openConsole(ctx, d)
	if err != nil {
		return err
	}
	defer page.close()
	about.console = page.url()
	ready := func() { about.print(p.stdout, colour) }
	if d.noJobs.is {
		ready()
		<-ctx.Done()
		return nil
	}
	drawn, err := p.openTimeline(ctx, d)
	if err != nil {
		return err
	}
	defer drawn.end()
	d.client.Logger = p.quiet()
	report, err := nightly.Run(ctx, nightly.Config{
		Client: d.client, Colour: colour, Dir: d.dir, Logger: p.quiet(), Out: p.stdout, Unsafe: d.unsafe.is,
		Tracer: exports.tracer(p.quiet()), Observer: page.observer(drawn.observe),
		Ready: func(dir string) {
			if d.dir == "" {
				d.scratch.keepsFiles(dir)
			}
			place <- dir
			ready()
			about.ready = true
		},
	})
	if about.ready && err == nil {
		err = drawn.write(p)
	}
	if about.ready && !about.embedded {
		about.printLeft(p.stdout)
	}
	if err == nil && !report.Sound() {
		return &codeError{code: exitFailed} // that has been said
	}
	return err
}
