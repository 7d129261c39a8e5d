package schedulers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

var contestants = map[string]contestant{"gocron": runGocron, "lockkeeper": runLockkeeper, "robfig": runRobfig}

// rare is the period of jobs at rest.
const rare = time.Hour

// phase returns how long after the multiples of a period a job is due. At rest
// that is from ten to fifty minutes from now.
func phase(s settings, i int) time.Duration {
	if s.Period > 0 {
		second := time.Duration(i) * time.Second % s.Period
		return second + time.Duration(rand.New(rand.NewPCG(1, uint64(i))).Int64N(int64(time.Second)))
	}
	apart := 10*time.Minute + time.Duration(i)*40*time.Minute/time.Duration(s.Jobs)
	return time.Duration(time.Now().Add(apart).Unix()) * time.Second % rare
}

func periodOf(s settings) time.Duration {
	if s.Period > 0 {
		return s.Period
	}
	return rare
}

// A beat is due at one phase of a period, and knows how late it is.
type beat struct{ period, phase time.Duration }

func (b beat) Next(now time.Time) time.Time {
	return now.Add(-b.phase).Truncate(b.period).Add(b.period + b.phase)
}

// late says how late it is; a slightly early one is not late.
func (b beat) late(now time.Time) time.Duration {
	late := now.Sub(b.Next(now).Add(-b.period))
	if late > b.period*9/10 {
		return 0
	}
	return late
}

// runRobfig is robfig/cron alone, whose own schedules know whole seconds only.
func runRobfig(_ context.Context, s settings, prepared func(), ran func(time.Duration)) (func() (int, error), error) {
	prepared()
	c := cron.New(cron.WithLogger(cron.DiscardLogger), cron.WithLocation(time.UTC))
	for i := range s.Jobs {
		b := beat{periodOf(s), phase(s, i)}
		c.Schedule(b, cron.FuncJob(func() { ran(b.late(time.Now())) }))
	}
	c.Start()
	return func() (int, error) {
		<-c.Stop().Done()
		return 0, nil
	}, nil
}

// runGocron is gocron without a locker.
func runGocron(_ context.Context, s settings, prepared func(), ran func(time.Duration)) (func() (int, error), error) {
	prepared()
	g, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, err
	}
	for i := range s.Jobs {
		b := beat{periodOf(s), phase(s, i)}
		first := b.Next(time.Now().Add(time.Second)) // not before all are there
		work := gocron.NewTask(func() { ran(b.late(time.Now())) })
		if _, err := g.NewJob(gocron.DurationJob(b.period), work, gocron.WithStartAt(gocron.WithStartDateTimePast(first))); err != nil {
			return nil, err
		}
	}
	g.Start()
	return func() (int, error) { return 0, g.Shutdown() }, nil
}

// runLockkeeper is a daemon of its own, whose jobs have run before: their
// histories are full. The phases of its schedules are whole seconds; its jitter
// does the rest.
func runLockkeeper(ctx context.Context, s settings, prepared func(), ran func(time.Duration)) (func() (int, error), error) {
	client, err := lock.NewClient(lock.Config{Servers: []string{s.Server}})
	if err != nil {
		return nil, err
	}
	if err := client.Ready(ctx); err != nil {
		return nil, err
	}
	if err := fillHistories(ctx, client, s); err != nil {
		return nil, fmt.Errorf("histories: %w", err)
	}
	prepared()
	return startLockkeeper(ctx, client, s, func(run jobs.Run) { ran(time.Since(run.Due)) })
}

// startLockkeeper starts a daemon that closes its client at its end. Several of
// them share the jobs.
func startLockkeeper(ctx context.Context, client *lock.Client, s settings, ran func(jobs.Run)) (func() (int, error), error) {
	guard, err := lockguard.New(client)
	if err != nil {
		return nil, err
	}
	cfg := scheduler.Config{
		Guard: guard, Ledger: client.TickLedger(""), Logger: slog.New(slog.DiscardHandler), // the others log nothing
	}
	if s.Daemons > 1 {
		cfg.Spread = scheduler.SpreadOver(client, "")
	}
	lk, err := scheduler.New(cfg)
	if err != nil {
		return nil, err
	}
	work := jobs.Func(func(_ context.Context, run jobs.Run) error {
		ran(run)
		return nil
	})
	for i := range s.Jobs {
		job := jobs.Job{
			Name: jobName(i), Work: work,
			Schedule: fmt.Sprintf("@every %s/%s", periodOf(s), phase(s, i).Truncate(time.Second)),
		}
		if s.Period > 0 {
			job.Jitter = time.Second
		}
		if s.Locks {
			job.Requirements = []lockguard.Requirement{{Scope: "schedulers/" + jobName(i)}}
		}
		if err := lk.Add(job); err != nil {
			return nil, err
		}
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- lk.Run(running) }()
	return func() (skipped int, err error) {
		stop()
		err = <-ended
		for _, stats := range lk.Stats() {
			for reason, n := range stats.Skipped {
				if reason != scheduler.SkipDraining {
					skipped += int(n)
				}
			}
		}
		return skipped, errors.Join(err, client.Close(ctx))
	}, nil
}

func jobName(i int) string { return fmt.Sprintf("job-%05d", i) }
