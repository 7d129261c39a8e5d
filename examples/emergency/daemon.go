package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// A daemon is what each process of a cluster has, as `lockkeeper run` does: work
// under its guard obeys overrides, asks for approvals, and is on record.
type daemon struct {
	guard *lockguard.Guard

	client   *lock.Client
	auditor  *audit.Auditor
	desk     *emergency.Desk
	file     *config.OverridesReloader
	executor *emergency.Executor

	stop    context.CancelFunc
	running sync.WaitGroup
}

// startDaemon is all the wiring that there is to do. log gets the alerts,
// observe the events of the locks.
func startDaemon(ctx context.Context, s site, log *slog.Logger, observe lockguard.Observer) (d *daemon, err error) {
	d = &daemon{stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(ctx))
		}
	}()
	if d.client, err = lock.NewClient(s.daemons); err != nil {
		return d, err
	}
	trail, err := d.client.AuditLog(0)
	if err != nil {
		return d, err
	}
	if d.auditor, err = audit.New(audit.Config{Trail: trail}); err != nil {
		return d, err
	}

	// Overrides: those of ZooKeeper and those of the file.
	d.desk, err = emergency.NewDesk(emergency.DeskConfig{
		Board: emergency.FromBoard(d.client.Overrides()), Now: d.client.Now,
	})
	if err != nil {
		return d, err
	}
	d.file, err = config.NewOverridesReloader(config.OverridesReloadConfig{
		Apply: d.desk.SetFile, Config: &config.Config{Emergency: config.Emergency{File: s.file}}, Now: d.client.Now,
	})
	if err != nil {
		return d, err
	}

	// Approvals: no rule decides here, so people do.
	approvals, err := emergency.NewApprovals(emergency.ApprovalsConfig{
		Auditor: d.auditor, Forum: emergency.OnBoard(d.client.Approvals()), Logger: log,
	})
	if err != nil {
		return d, err
	}

	d.guard, err = lockguard.New(d.client,
		lockguard.WithApprover(approvals), lockguard.WithAuditor(d.auditor), lockguard.WithOverrides(d.desk),
		lockguard.WithObserver(observe), lockguard.WithObserver(d.auditor.Observe))
	if err != nil {
		return d, err
	}

	// Holds: one daemon takes the lock for the person.
	d.executor, err = emergency.NewExecutor(emergency.ExecutorConfig{
		Auditor: d.auditor, Client: d.client, Desk: d.desk, Guard: d.guard,
	})
	if err != nil {
		return d, err
	}
	return d, d.start(ctx)
}

func (d *daemon) start(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	d.stop = stop
	d.running.Go(func() { d.desk.Run(running) })
	d.running.Go(func() { d.file.Run(running) })
	d.running.Go(func() { d.executor.Run(running) })
	return d.desk.Ready(ctx)
}

// close ends the daemon when its work has ended. All that it has done is on
// record then.
func (d *daemon) close(ctx context.Context) (err error) {
	d.stop()
	d.running.Wait()
	if d.auditor != nil {
		err = closeIn(ctx, d.auditor)
	}
	if d.client != nil {
		err = errors.Join(err, closeIn(ctx, d.client))
	}
	return err
}
