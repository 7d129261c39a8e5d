package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// A daemon is what lockkeeper run consists of.
type daemon struct {
	program        *program
	cfg            *config.Config
	logger         *slog.Logger
	exports        *telemetry
	manager        *serviceManager
	hangup         chan os.Signal
	metrics        *metricsServer
	console        *consoleServer
	client         *lock.Client
	operators      *operations
	closeEnsembles func()

	// From start on.
	schedule *scheduler.Scheduler
	reloaded *reloads
	views    *consoleRoom // nil: not yet
}

// start makes the scheduler, and begins all that goes on beside it. measured may be
// nil.
func (d *daemon) start(ctx context.Context, router *lock.Router, measured lockguard.Observer) error {
	more := slices.Concat(d.metrics.options(), d.console.options())
	guard, schedule, err := newScheduler(router, d.cfg, d.logger, d.exports.tracer(d.logger), measured,
		d.operators, more...)
	if err != nil {
		return err
	}
	d.schedule = schedule
	d.reloaded, err = d.program.reload(ctx, d.cfg, schedule, d.operators, d.metrics, d.hangup, d.manager, d.logger)
	if err != nil {
		return err
	}
	if err := d.metrics.serve(ctx, d.cfg, d.client, schedule, d.reloaded.Reloader, d.operators); err != nil {
		return err
	}
	if err := d.operators.start(ctx, guard); err != nil {
		return err
	}
	d.views, err = d.console.open(ctx, d.cfg, d.client, d.reloaded.Reloader, d.operators, d.metrics)
	return err
}

// run runs the jobs, and tells the service manager of it, until they have drained or a
// third signal comes.
func (d *daemon) run(ctx context.Context, again <-chan syscall.Signal, stop func()) error {
	drained := make(chan error, 1)
	go func() { drained <- d.schedule.Run(ctx) }()
	d.manager.ready(&runningDaemon{
		ctx: ctx, client: d.client, reloader: d.reloaded.Reloader, schedule: d.schedule, alive: d.schedule.Alive,
	})
	tell, beat, silence := d.manager.ticks()
	defer silence()
	hurried, draining := false, ctx.Done()
	for {
		select {
		case <-tell:
			d.manager.tell()
		case <-beat:
			d.manager.beat()
		case <-draining:
			d.manager.stopping(d.schedule.DrainLimit())
			draining = nil
		case err := <-drained:
			stop()
			if errors.As(err, new(*scheduler.AbandonedError)) {
				return err // its locks have to last as long as this process
			}
			d.end()
			d.logger.Info("lockkeeper stopped")
			return err
		case sig := <-again:
			if !hurried {
				d.logger.Warn("cancelling what runs; a further signal stops at once", "signal", sig.String())
				d.schedule.Hurry()
				hurried = true
				continue
			}
			// The session is not closed: that would free the locks of commands that
			// are only killed by the end of this process.
			d.logger.Warn("stopping at once; what is held is freed with the ZooKeeper session", "signal", sig.String())
			d.exports.ends = nil
			return &codeError{code: 128 + int(sig)}
		}
	}
}

// end ends all that went on beside the scheduler, and the sessions at last.
func (d *daemon) end() {
	d.views.end()
	d.reloaded.end()
	d.operators.end()
	d.closeEnsembles()
	closeClient(d.client)
}
