package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/examples/nightly"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// devFlags say what dev starts.
type devFlags struct {
	listen  string
	dataDir string
	length  duration
	noJobs  yes
	unsafe  yes
	dir     string

	client recipes.Config
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
		Long: `See it at work, with nothing installed: a ZooKeeper-compatible server, two daemons
and three jobs that preempt each other, all in this process. For development
only: the server has no replicas and no access control, and keeps what it has
in memory, or in a file in --data-dir.

The server listens at ` + defaultListen + `, or at a free port when that is taken. Other
commands can use it at the same time, and so can any client of ZooKeeper.
LOCKKEEPER_ZK is not looked at. With --zk no server is started: the jobs run on
that ZooKeeper, under ` + devRoot + ` unless --root says otherwise.

Ctrl-C drains: what runs may go on for a second, is told to go then, and cleans
up. Then all data is read again. A second signal, a second later or more, stops
at once.

Exit codes:
  0    nothing is corrupted
  1    something is, which --unsafe is there to show; or it could not start
  75   the ZooKeeper of --zk does not answer
  78   bad flags`,
		Example: `  lockkeeper dev
  lockkeeper dev --for 25s
  lockkeeper dev --for 25s --unsafe
  lockkeeper dev --no-jobs --data-dir ./zookeeper`,
	}, nil, func(c *cobra.Command, _ []string) error {
		if err := p.checkDev(c, &d); err != nil {
			return err
		}
		return p.develop(c.Context(), &d)
	})
	flags := c.Flags()
	flags.StringVar(&d.listen, "listen", "", "`address` of the server, which must be free (default "+defaultListen+", or a free port)")
	flags.StringVar(&d.dataDir, "data-dir", "", "`directory` in which the server keeps its data for the next time (default: in memory)")
	d.length.positive = "25s"
	flags.Var(&d.length, "for", "how long to run (default: until Ctrl-C)")
	flags.VarPF(&d.noJobs, "no-jobs", "", "the server only").NoOptDefVal = "true"
	flags.VarPF(&d.unsafe, "unsafe", "", "run the jobs without their locks, to see what locks are for").NoOptDefVal = "true"
	flags.StringVar(&d.dir, "dir", "", "new `directory` for the files of the jobs (default: a temporary one, removed at the end)")
	return c
}

// checkDev looks for flags that are wrong, or do not fit together.
func (p *program) checkDev(c *cobra.Command, d *devFlags) error {
	given := c.Flags().Changed
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
		for _, flag := range []string{"zk-tls", "zk-ca-file", "zk-cert-file", "zk-key-file", "zk-digest-file"} {
			if given(flag) {
				p.problems.add(fmt.Sprintf("--%s: the server of dev has no access control; name another one with --zk, or leave it out", flag))
			}
		}
	}
	if d.noJobs.is {
		without("no-jobs", "unsafe", "dir")
	}
	if given("listen") {
		p.problems.addListen(d.listen)
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
		p.add(fmt.Sprintf("--listen: %q is not an address; write host:port, for example %s, with port 0 for a free one", address, defaultListen))
	}
}

// devClient returns how to reach ZooKeeper. The address of a server that is
// still to be started is missing.
func (p *program) devClient(elsewhere bool) recipes.Config {
	var cfg recipes.Config
	if elsewhere {
		p.zookeeper.root = cmp.Or(p.zookeeper.root, devRoot)
		cfg = p.clientConfig()
	} else {
		cfg.Root = cmp.Or(p.zookeeper.root, os.Getenv("LOCKKEEPER_ROOT"), "/lockkeeper")
		cfg.SessionTimeout = p.zookeeper.sessionTimeout.or(0)
		p.problems.addRequest(cfg.Validate(), zookeeperFlag)
	}
	// A ZooKeeper that goes away is worth a line between those of the timeline.
	cfg.Logger = p.logging.logger(p.stderr, slog.LevelWarn, "text")
	return cfg
}

// develop runs everything until a signal comes or the time is over.
func (p *program) develop(ctx context.Context, d *devFlags) error {
	ctx, again, stop := untilSignals(ctx, p.quiet())
	defer stop()
	if length := d.length.limit(); length != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *length)
		defer cancel()
	}
	ended := make(chan error, 1)
	go func() { ended <- p.show(ctx, d) }()
	select {
	case err := <-ended:
		return err
	case sig := <-again:
		return &codeError{code: 128 + int(sig)}
	}
}

// show runs the server, if one is wanted, and the jobs, until ctx ends.
func (p *program) show(ctx context.Context, d *devFlags) (err error) {
	colour := inColour(p.stdout, os.Getenv)
	about := banner{flags: d, program: invocation(os.Args[0])}
	if len(d.client.Servers) == 0 {
		server, taken, failure := startServer(d)
		if failure != nil {
			return failure
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		d.client.Servers = []string{server.Addr()}
		about.embedded, about.taken = true, taken
	}
	ready := func() { about.print(p.stdout, colour) }
	if d.noJobs.is {
		ready()
		<-ctx.Done()
		return nil
	}
	report, err := nightly.Run(ctx, nightly.Config{
		Client: d.client, Colour: colour, Dir: d.dir, Logger: p.quiet(), Out: p.stdout, Ready: func(string) { ready() }, Unsafe: d.unsafe.is,
	})
	if err == nil && !report.Sound() {
		return &codeError{code: exitFailed} // that has been said
	}
	return err
}
