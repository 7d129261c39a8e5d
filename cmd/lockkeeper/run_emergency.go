package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/audit"
	"github.com/lockkeeper/lockkeeper/observability/metrics"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// operations are what operators have to do with the jobs of a daemon: overrides,
// approvals and the audit trail.
type operations struct {
	log       *slog.Logger
	client    *lock.Client
	auditor   *audit.Auditor
	desk      *emergency.Desk
	file      *config.OverridesReloader
	approvals *emergency.Approvals // nil: no approvals
	workflows *workflowApprovals   // nil: no questions in workflows
	schedules *schedulesKeeper     // nil: none are kept on a Temporal server
	executor  *emergency.Executor

	running sync.WaitGroup
	stop    context.CancelFunc
	acting  sync.WaitGroup // what ends when the daemon begins to drain
}

// newOperations reads the overrides file, and starts nothing.
func newOperations(client *lock.Client, cfg *config.Config, logger *slog.Logger) (*operations, error) {
	o := &operations{log: logger, client: client}
	trail, err := client.AuditLog(cfg.Audit.Keep)
	if err != nil {
		return nil, err
	}
	if o.auditor, err = audit.New(audit.Config{File: cfg.Audit.File, Logger: logger, Trail: trail}); err != nil {
		return nil, &codeError{exitConfig, fmt.Sprintf("%s: audit.file: %v", cfg.File, err)}
	}
	o.desk, err = emergency.NewDesk(emergency.DeskConfig{
		Board: emergency.FromBoard(client.Overrides()), Limits: cfg.Emergency.Limits(time.Time{}), Logger: logger,
		Now: client.Now,
	})
	if err == nil {
		o.file, err = config.NewOverridesReloader(config.OverridesReloadConfig{
			Apply: o.desk.SetFile, Config: cfg, Logger: logger, Now: client.Now,
		})
	}
	if err == nil && cfg.Approvals.Asked {
		err = o.newApprovals(cfg)
	}
	if err == nil {
		o.schedules, err = newSchedulesKeeper(client, cfg, o.desk, logger)
	}
	if err != nil {
		o.end()
		return nil, err
	}
	return o, nil
}

// newApprovals has people asked where the file says.
func (o *operations) newApprovals(cfg *config.Config) (err error) {
	asking := emergency.ApprovalsConfig{
		Auditor: o.auditor, Forum: emergency.OnBoard(o.client.Approvals()), Logger: o.log, Policy: cfg.Approvals.Policy,
	}
	if where := cfg.Approvals.Temporal; where != nil {
		if o.workflows, err = newWorkflowApprovals(cfg, cfg.Client, o.log); err != nil {
			return err
		}
		asking.Forum = o.workflows.Approvals
		if where.Trusted == config.TrustOperators {
			asking.Witness = emergency.OnRecord(o.client)
		}
	}
	o.approvals, err = emergency.NewApprovals(asking)
	return err
}

// options make the jobs of a guard obey.
func (o *operations) options() []lockguard.Option {
	options := []lockguard.Option{
		lockguard.WithAuditor(o.auditor), lockguard.WithObserver(o.auditor.Observe), lockguard.WithOverrides(o.desk),
	}
	if o.approvals != nil {
		options = append(options, lockguard.WithApprover(o.approvals))
	}
	return options
}

// firstLook is how long the first ticks wait until it is known what ZooKeeper has.
const firstLook = 5 * time.Second

// start begins, and waits until it is known what is in force. When ctx ends, the
// daemon drains: locks that it holds for operators go to another one then.
func (o *operations) start(ctx context.Context, guard *lockguard.Guard) error {
	var err error
	o.executor, err = emergency.NewExecutor(emergency.ExecutorConfig{
		Auditor: o.auditor, Client: o.client, Desk: o.desk, Guard: guard, Logger: o.log,
	})
	if err != nil {
		return err
	}
	always, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	o.running.Go(func() { o.desk.Run(always) })
	o.running.Go(func() { o.file.Run(always) })
	o.running.Go(func() { o.auditor.Run(always) })
	o.acting.Go(func() { o.executor.Run(ctx) })
	if w := o.workflows; w != nil {
		w.KeepQuestions(ctx)
		o.running.Go(func() { w.work(always, o.auditor) })
	}

	if o.schedules != nil {
		o.acting.Go(func() { o.schedules.run(ctx) })
	}
	waiting, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	if o.desk.Ready(waiting) != nil && ctx.Err() == nil {
		o.log.Warn("overrides in ZooKeeper not read yet; the daemon starts without", "waited", firstLook)
	}
	err = o.desk.Status().Err
	if errors.As(err, new(*lock.ListsError)) || errors.As(err, new(*lock.AccessError)) ||
		errors.As(err, new(*lock.RecordError)) {
		return &codeError{
			exitConfig, fmt.Sprintf("no job is run, as it is not known whether operators have frozen some: %v", err),
		}
	}
	return nil
}

// reload gets the configuration that is in force from now on.
func (o *operations) reload(next *config.Config) {
	o.desk.SetLimits(next.Emergency.Limits(time.Time{}))
	o.file.SetConfig(next)
	o.schedules.update(next.Schedules)
	if o.approvals != nil {
		o.approvals.SetPolicy(next.Approvals.Policy)
	}
}

// liveOperations are the settings that reload puts in force.
func liveOperations() []string {
	return []string{"emergency", "approvals.deadline", "approvals.rules"}
}

// end stops everything. No job runs any more, and the context of start has ended.
func (o *operations) end() {
	o.acting.Wait()
	o.workflows.end() // while there are workers
	if o.stop != nil {
		o.stop()
	}
	o.running.Wait()
	o.workflows.close()
	o.schedules.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := o.auditor.Close(ctx); err != nil {
		o.log.Error("audit records are missing", "error", err)
	}
}

// measure is what metrics say of overrides.
func (o *operations) measure() metrics.OverridesNow {
	now := metrics.OverridesNow{FileOK: o.file.Status().OK, ZooKeeperOK: o.desk.Status().Err == nil}
	active, _ := o.desk.Active()
	for _, a := range active {
		now.Active = append(now.Active, metrics.Override{Kind: string(a.Kind), Source: string(a.Source)})
	}
	return now
}
