package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func (p *program) run() *cobra.Command {
	var file string
	c := p.command(&cobra.Command{
		Use:   "run",
		Short: "Run the jobs of a configuration file, as a daemon",
		Long: `Run the jobs of a configuration file at their times, each tick once among all
daemons that share a ZooKeeper and a root. Start as many as you like.

What the environment says of ZooKeeper counts before the file, and flags before
both. While ZooKeeper does not answer, the daemon goes on trying and logs it;
ticks that cannot be decided meanwhile are skipped.

With scheduler: {spread: true} in the file each job belongs to one of the
daemons, which alone asks for its ticks, and to another one when that is gone.

A file that changes is put in force while the jobs run, whole or not at all: the
log says what has changed, or all that is wrong with it. SIGHUP has it read at
once. What runs goes on as it was started.

SIGTERM and SIGINT drain: no tick is fired any more, running jobs may go on for
drain.finish; those still running then are cancelled, clean up and give their locks
back. Exit code 0, or 1 if something did not go in time. A second signal, a
second later or more, cancels what runs. A third one stops at once: commands are
killed, and their locks are freed when the ZooKeeper session ends.

With metrics: {listen: "127.0.0.1:9464"} in the file, Prometheus finds what becomes
of the jobs and of the locks at /metrics, and the last change of the file; /healthz
answers as long as the daemon runs, /readyz says whether it can do its work, or why not.

With console: {listen: "127.0.0.1:9480"} in the file, a web page there shows who holds,
who waits and why, and the same as JSON below /api/v1. It is read-only, unless the file has
actions: true and says who may sign in.

With --temporal-schedules, or temporal: {schedules: true} in the file, jobs that start
workflows become schedules of the Temporal server: it starts them itself, also while no
daemon runs, and the workflow takes the locks of the job.

Exit code 78 for a file that cannot be used; all that is wrong with it is said. 75
when the address of the metrics or of the console is taken.`,
		Example: `  lockkeeper config validate -f lockkeeper.yaml
  lockkeeper run -f lockkeeper.yaml --log-level debug
  kill -HUP "$(pidof lockkeeper)"    # read the file now`,
	}, nil, func(c *cobra.Command, _ []string) error {
		cfg, err := p.daemonConfig(c, file)
		if err != nil {
			return err
		}
		if len(cfg.Jobs) == 0 {
			return &usageError{command: c.CommandPath(), problems: problems{
				file + " has no jobs; write the section jobs, or join its groups: lockkeeper group join",
			}}
		}
		return p.serve(c.Context(), cfg)
	})
	c.Flags().StringVarP(&file, "file", "f", defaultFile, "configuration `file`")
	c.Flags().BoolVar(&p.daemon.TemporalSchedules, "temporal-schedules", false,
		"make jobs that start workflows schedules of the Temporal server, as temporal: {schedules: true}")
	return c
}

// daemonConfig reads the file, and puts what the flags say in its place.
func (p *program) daemonConfig(c *cobra.Command, file string) (*config.Config, error) {
	if err := p.usage(c); err != nil {
		return nil, err
	}
	cfg, err := config.Load(file, p.daemon)
	if err != nil {
		return nil, err
	}
	p.applyZooKeeper(&cfg.Client)
	p.problems.addRequest(cfg.Client.Validate(), zookeeperFlag)
	for _, e := range cfg.Ensembles { // which have what the flags say
		p.problems.addRequest(e.Client(cfg.Client).Validate(), zookeeperFlag)
	}
	return cfg, p.usage(c)
}

// serve runs the jobs until signals say how to end.
func (p *program) serve(ctx context.Context, cfg *config.Config) error {
	exports := p.telemetry(ctx)
	defer exports.end()
	logger := p.logging.logger(p.stderr, cfg.Log.Level, cfg.Log.Format)
	for _, warning := range cfg.Warnings {
		logger.Warn("configuration", "problem", warning.String())
	}
	d := &daemon{
		program: p, cfg: cfg, logger: logger, exports: exports, manager: newServiceManager(logger),
		hangup: make(chan os.Signal, 1),
	}
	signal.Notify(d.hangup, syscall.SIGHUP)
	defer signal.Stop(d.hangup)
	ctx, again, stop := untilSignals(ctx, func(sig syscall.Signal) {
		logger.Info("draining; a second signal, a second later, cancels what runs, a third one stops at once",
			"signal", sig.String())
	}, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	if d.metrics, err = listenForMetrics(ctx, cfg, exports, logger); err != nil {
		return err
	}
	defer d.metrics.close()
	if d.console, err = listenForConsole(ctx, cfg, logger); err != nil {
		return err
	}
	defer d.console.close()
	cfg.Client.Logger = logger
	if d.client, err = lock.NewClient(cfg.Client); err != nil {
		return err
	}
	go tellAccess(ctx, d.client, logger)
	measured, stopMeasuring := measure(cfg.StateDir, logger)
	defer stopMeasuring()
	if d.operators, err = newOperations(d.client, cfg, logger); err != nil {
		closeClient(d.client)
		return err
	}
	router, closeEnsembles, err := route(d.client, cfg)
	if err != nil {
		d.operators.end()
		closeClient(d.client)
		return err
	}
	d.closeEnsembles = closeEnsembles
	err = d.start(ctx, router, measured)
	defer d.views.end()
	if err != nil {
		d.operators.end()
		closeEnsembles()
		closeClient(d.client)
		return err
	}
	logger.Info("lockkeeper starts", "version", buildVersion().Version, "file", cfg.File, "jobs", len(cfg.Jobs),
		"zookeeper", strings.Join(cfg.Client.Servers, ",")+cfg.Client.Chroot, "root", cfg.Client.Root,
		"ensembles", len(cfg.Ensembles))
	return d.run(ctx, again, stop)
}

// newScheduler returns a guard, and a scheduler with the jobs of cfg; measured may
// be nil.
func newScheduler(
	router *lock.Router, cfg *config.Config, logger *slog.Logger, tracer *traces.Tracer, measured lockguard.Observer,
	operators *operations, more ...lockguard.Option,
) (*lockguard.Guard, *scheduler.Scheduler, error) {
	options := slices.Concat(tracer.Options(), operators.options(),
		[]lockguard.Option{lockguard.WithObserver(lockEvents(logger)), lockguard.WithLogger(logger)}, more)
	if measured != nil {
		options = append(options, lockguard.WithObserver(measured))
	}
	guard, err := lockguard.NewRouted(router, options...)
	if err != nil {
		return nil, nil, err
	}
	client := router.Home()
	settings := scheduler.Config{
		Begin: tracer.Run, Drain: cfg.Drain, Guard: guard, Ledger: client.TickLedger(""), Logger: logger,
		Overrides: operators.desk,
	}
	if cfg.Scheduler.Spread {
		settings.Spread, settings.SpreadStrategy = scheduler.SpreadOver(client, cfg.Scheduler.Name), cfg.Scheduler.Strategy
	}
	s, err := scheduler.New(settings)
	if err != nil {
		return nil, nil, err
	}
	var problems []error
	for _, job := range ownJobs(cfg) {
		problems = append(problems, s.Add(job))
	}
	return guard, s, errors.Join(problems...)
}

// lockEvents logs what happens to locks. Skipped ticks are logged by the
// scheduler, which knows more about them.
func lockEvents(logger *slog.Logger) lockguard.Observer {
	log := lockguard.LogObserver(logger)
	return func(ctx context.Context, event lockguard.Event) {
		if _, skipped := event.Notice.(lockguard.Skipped); !skipped {
			log(ctx, event)
		}
	}
}
