package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// How often schedules on the Temporal server are looked at, and how soon again after
// an error.
const (
	schedulesEvery = 30 * time.Second
	schedulesAgain = 5 * time.Second
)

// A schedulesKeeper keeps the schedules of a Temporal server up to date with the
// jobs of the file, and with who has paused them.
type schedulesKeeper struct {
	log    *slog.Logger
	server temporal.Connection
	ledger *ticks.Ledger
	desk   *emergency.Desk
	keep   *temporal.Schedules
	poke   chan struct{}
	paused map[string]ticks.Pause // by job, as the ledger has it
	unread map[string]string      // by job: why it is not known whether it is paused

	mu  sync.Mutex
	all []temporal.Schedule
}

// newSchedulesKeeper returns nil when no job of the file is a schedule there.
func newSchedulesKeeper(
	client *lock.Client, cfg *config.Config, desk *emergency.Desk, logger *slog.Logger,
) (*schedulesKeeper, error) {
	if !cfg.TemporalSchedules.Asked && len(cfg.Schedules) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to keep
	}
	server, err := temporal.NewClient(cfg.Temporal)
	if err != nil {
		return nil, err
	}
	k := &schedulesKeeper{
		log: logger, server: server, ledger: client.TickLedger(""), desk: desk, all: cfg.Schedules,
		poke: make(chan struct{}, 1),
	}
	k.keep, err = temporal.NewSchedules(temporal.SchedulesConfig{
		Client: server, Logger: logger, Orphans: cfg.TemporalSchedules.Orphans, Paused: k.whyPaused,
		Root: cfg.Client.Chroot + cfg.Client.Root, Set: cfg.TemporalSchedules.Set,
	})
	if err != nil {
		server.Close()
		return nil, err
	}
	return k, nil
}

// update has other schedules kept from now on; k may be nil.
func (k *schedulesKeeper) update(all []temporal.Schedule) {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.all = all
	k.mu.Unlock()
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// run keeps them until ctx ends.
func (k *schedulesKeeper) run(ctx context.Context) {
	for failing := false; ; {
		next := schedulesEvery
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			next = schedulesAgain
			if !failing {
				k.log.Error("schedules on the Temporal server differ from the configuration; tried again", "error", err)
			}
			failing = true
		} else if err == nil {
			failing = false
		}
		select {
		case <-ctx.Done():
			return
		case <-k.poke:
		case <-time.After(next):
		}
	}
}

func (k *schedulesKeeper) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, schedulesEvery)
	defer cancel()
	states, left, err := k.ledger.States(ctx)
	if err != nil {
		return fmt.Errorf("which jobs are paused is not known: %w", err)
	}
	k.paused = make(map[string]ticks.Pause)
	for _, s := range states {
		if s.Paused != nil {
			k.paused[s.Job] = *s.Paused
		}
	}
	k.mu.Lock()
	all := slices.Clone(k.all)
	k.mu.Unlock()
	k.leaveOut(left, all)
	_, err = k.keep.Sync(ctx, all)
	return err
}

// leaveOut takes note of the jobs of which it is unknown whether they are paused,
// and logs each once.
func (k *schedulesKeeper) leaveOut(left []lock.Unreadable, all []temporal.Schedule) {
	before := k.unread
	k.unread = make(map[string]string)
	for _, u := range left {
		if !slices.ContainsFunc(all, func(s temporal.Schedule) bool { return s.Job.Name == u.Name }) {
			continue
		}
		if k.unread[u.Name] = u.String(); before[u.Name] != u.String() {
			k.log.Error("a schedule on the Temporal server is paused until the record of its job in ZooKeeper can be read",
				"job", u.Name, "node", u.Path, "why", u.Reason)
		}
	}
}

// whyPaused says who has paused a job, and why. One whose record cannot be read is
// paused: the daemons would not run it either.
func (k *schedulesKeeper) whyPaused(job jobs.Job) (string, bool) {
	if why := k.unread[job.Name]; why != "" {
		return "its record in ZooKeeper cannot be read: " + why, true
	}
	if p, ok := k.paused[job.Name]; ok && (p.Until.IsZero() || p.Until.After(time.Now())) {
		return fmt.Sprintf("paused by %s: %s", p.By, p.Reason), true
	}
	if o, _ := k.desk.Paused(job.Name, job.Labels); o != nil {
		return fmt.Sprintf("paused by the override %s of %s: %s", o.ID, o.By, o.Reason), true
	}
	return "", false
}

// close gives the connection back; k may be nil.
func (k *schedulesKeeper) close() {
	if k != nil {
		k.server.Close()
	}
}

// ownJobs are the jobs as the daemon runs them: those that the Temporal server starts
// at their times, by hand alone.
func ownJobs(cfg *config.Config) []jobs.Job {
	own := slices.Clone(cfg.Jobs)
	for i := range own {
		if isTemporals(cfg, own[i].Name) {
			own[i].Schedule = scheduler.Manual().String()
		}
	}
	return own
}

// isTemporals reports whether the Temporal server starts a job; cfg may be nil.
func isTemporals(cfg *config.Config, job string) bool {
	return cfg != nil && slices.ContainsFunc(cfg.Schedules, func(s temporal.Schedule) bool { return s.Job.Name == job })
}
