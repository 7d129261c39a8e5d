package main

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

//go:embed nightly.yaml
var nightlyYAML []byte

// A daemon runs the jobs of nightly.yaml until its context ends.
type daemon struct {
	name   string
	dir    string // of the data set
	unsafe bool
	steps  io.Writer
	log    io.Writer
}

// run is all that a program of one's own needs to do: read the configuration,
// connect, and run the schedule.
func (d daemon) run(ctx context.Context) (err error) {
	story := newNarrator(d.name, d.steps)
	logger := slog.New(slog.NewTextHandler(d.log, nil))
	work := &work{set: orders.Open(d.dir), say: story.say}

	cfg, err := config.Parse("nightly.yaml", nightlyYAML, config.Options{Funcs: work.byName()})
	if err != nil {
		return err
	}
	cfg.Client.Logger = logger
	client, err := recipes.NewClient(cfg.Client)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	guard, err := lockguard.New(client,
		lockguard.WithObserver(lockguard.LogObserver(logger)),
		lockguard.WithObserver(story.observe))
	if err != nil {
		return err
	}
	schedule, err := scheduler.New(scheduler.Config{
		DrainTimeout: cfg.DrainTimeout,
		Guard:        guard,
		Ledger:       client.TickLedger(d.name),
		Logger:       logger,
	})
	if err != nil {
		return err
	}
	for _, job := range cfg.Jobs {
		if err := schedule.Add(d.told(job, story)); err != nil {
			return err
		}
	}
	return schedule.Run(endWithParent(ctx))
}

// told makes a job tell the narrator when its work fails. With --unsafe it also
// takes the lock away from it.
func (d daemon) told(job jobs.Job, story *narrator) jobs.Job {
	work := job.Work
	job.Work = jobs.Func(func(ctx context.Context, run jobs.Run) error {
		err := work.Run(ctx, run)
		if err != nil && ctx.Err() == nil {
			story.fail(job.Name, err)
		}
		return err
	})
	cleaner, ok := work.(jobs.Cleaner)
	switch {
	case d.unsafe:
		job.Requirements = nil
		job.Work = unlocked(job.Work, cleaner, story)
	case ok:
		job.Work = jobs.WithCleanup(job.Work, cleaner.Cleanup)
	}
	return job
}

// unlocked does without the guard what the guard would have done, apart from
// the lock: it runs the cleanup after an interruption, and tells the steps.
func unlocked(work jobs.Work, cleaner jobs.Cleaner, story *narrator) jobs.Work {
	return jobs.Func(func(ctx context.Context, run jobs.Run) error {
		tell := func(k kind, text string) {
			story.tell(step{At: time.Now(), Job: run.Job, Run: run.Job + run.Attempt, Kind: k, Text: text})
		}
		tell(running, "without a lock")
		began := time.Now()
		err := work.Run(ctx, run)
		switch {
		case ctx.Err() != nil && cleaner != nil:
			tell(cleaning, "")
			if err := cleaner.Cleanup(context.WithoutCancel(ctx), run); err != nil {
				tell(unclean, oneLine(err))
			}
			tell(stopped, "the daemon ends")
		case err != nil:
			tell(failed, oneLine(err))
		default:
			tell(done, "took "+seconds(time.Since(began)))
		}
		return err
	})
}

// endWithParent returns a context that also ends when the demo does, which
// holds the other end of the standard input.
func endWithParent(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}
