package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// reloads keeps jobs up to date with their file.
type reloads struct {
	*config.Reloader
	running sync.WaitGroup
}

// reload keeps the jobs up to date with the file until ctx ends.
func (p *program) reload(
	ctx context.Context, cfg *config.Config, schedule *scheduler.Scheduler, operators *operations, exposed *metricsServer,
	hangup <-chan os.Signal, manager *serviceManager, logger *slog.Logger,
) (*reloads, error) {
	reloader, err := config.NewReloader(config.ReloadConfig{
		Apply: func(_ context.Context, next *config.Config, _ config.Diff) error {
			_, err := schedule.Reconcile(ownJobs(next))
			if err == nil {
				operators.reload(next)
				exposed.reload(next)
			}
			return err
		},
		Current: cfg,
		Live:    liveOperations(),
		Options: p.daemon,
		Logger:  logger,
		Prepare: func(next *config.Config) error {
			before := p.problems
			p.applyZooKeeper(&next.Client)
			p.problems = before // said when the daemon started
			next.Client.Logger = logger
			if len(next.Jobs) == 0 {
				return errors.New("the file has no jobs any more; stop the daemon instead")
			}
			if len(next.Schedules) > 0 && operators.schedules == nil {
				return errors.New(
					"the Temporal server is to start jobs by itself, and none before; start the daemon anew for that")
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	r := &reloads{Reloader: reloader}
	r.running.Go(func() { reloader.Run(ctx) })
	r.running.Go(func() {
		for {
			select {
			case <-hangup:
				manager.reloading(func() error { return reloader.Reload(ctx) })
			case <-ctx.Done():
				return
			}
		}
	})
	return r, nil
}

// end gives back what the configuration in force has opened. No job runs any
// more, and the context of reload has ended.
func (r *reloads) end() {
	r.running.Wait()
	r.Config().Close()
}
