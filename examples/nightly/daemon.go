package nightly

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

//go:embed nightly.yaml
var nightlyYAML []byte

// File returns what the daemons run: nightly.yaml, for programs that show schedules and
// locks. The work of its jobs is that of Run alone.
func File() (*config.Config, error) { return readFile(new(work)) }

func readFile(w *work) (*config.Config, error) {
	return config.Parse("nightly.yaml", nightlyYAML, config.Options{Funcs: w.byName()})
}

// A daemon runs the jobs of nightly.yaml.
type daemon struct {
	name     string
	jobs     []jobs.Job
	drain    time.Duration // what jobs may go on when the daemon stops
	client   *lock.Client
	ledger   *ticks.Ledger
	tell     func(step)
	schedule *scheduler.Scheduler
	obeys    *operators
}

// newDaemon is all that a program of one's own needs to do: read the
// configuration, connect, and make a schedule.
func newDaemon(name string, cfg Config, set *orders.Set, line *timeline) (d *daemon, err error) {
	story := newNarrator(name, line.add)
	logger := cfg.Logger.With("daemon", name)
	work := &work{set: set, say: story.say}

	file, err := readFile(work)
	if err != nil {
		return nil, err
	}
	cfg.Client.SessionTimeout = cmp.Or(cfg.Client.SessionTimeout, file.Client.SessionTimeout)
	client, err := lock.NewClient(cfg.Client)
	if err != nil {
		return nil, err
	}
	d = &daemon{
		name: name, jobs: file.Jobs, drain: file.Drain.Finish,
		client: client, ledger: client.TickLedger(name), tell: story.tell,
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	d.obeys, err = newOperators(client, file.Emergency.Limits(time.Time{}), logger)
	if err != nil {
		return nil, err
	}
	tracer := cmp.Or(cfg.Tracer, traces.New(nil))
	others := cfg.Observer
	if others == nil {
		others = func(context.Context, lockguard.Event) {}
	}
	guard, err := lockguard.New(client, slices.Concat(tracer.Options(), []lockguard.Option{
		lockguard.WithLogger(logger),
		lockguard.WithObserver(lockguard.LogObserver(logger)),
		lockguard.WithObserver(story.observe), // first: the record may have to wait for ZooKeeper
		lockguard.WithObserver(others),
	}, d.obeys.options())...)
	if err != nil {
		return nil, err
	}
	if err := d.obeys.carryOut(guard); err != nil {
		return nil, err
	}
	d.schedule, err = scheduler.New(scheduler.Config{
		Begin:     tracer.Run,
		Drain:     file.Drain,
		Guard:     guard,
		Ledger:    d.ledger,
		Logger:    logger,
		Overrides: d.obeys.desk,
	})
	if err != nil {
		return nil, err
	}
	for _, job := range file.Jobs {
		if err := d.schedule.Add(told(job, story, cfg.Unsafe)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// look returns why the jobs cannot work on this ZooKeeper: it does not answer, or
// refuses access. The scheduler would log that and try on.
func (d *daemon) look(ctx context.Context) error {
	if err := d.client.Ready(ctx); err != nil {
		return err
	}
	for _, job := range d.jobs {
		if _, err := d.ledger.Begin(ctx, job.Name, time.Now()); err != nil {
			return err
		}
		for _, lock := range job.Requirements {
			if _, err := d.client.Lock(ctx, lock.Scope); err != nil {
				return err
			}
		}
	}
	return nil
}

// run returns when ctx has ended and all jobs have.
func (d *daemon) run(ctx context.Context) {
	d.obeys.start(ctx)
	_ = d.schedule.Run(ctx) // fails when it is called twice
}

// runNow runs a job by hand after a while, unless ctx ends before. It prints what
// the narrator does not see. The error is an *lock.AccessError.
func (d *daemon) runNow(ctx context.Context, after time.Duration, job string) error {
	err := scheduler.ErrStopped
	for ; errors.Is(err, scheduler.ErrStopped); after = 10 * time.Millisecond {
		select {
		case <-time.After(after):
			err = d.schedule.RunNow(context.WithoutCancel(ctx), job)
		case <-ctx.Done():
			return nil
		}
	}
	if errors.As(err, new(*scheduler.OverlapError)) {
		d.tell(step{At: time.Now(), Job: job, Kind: skipped, Overlap: true, Text: "its run by hand"})
	}
	if denied, ok := errors.AsType[*lock.AccessError](err); ok {
		return denied
	}
	return nil
}

// close ends the session. What ZooKeeper does not confirm in time is over when
// it notices that the session is.
func (d *daemon) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if d.obeys != nil {
		_ = d.obeys.end(ctx) // what is not on record is logged
	}
	_ = d.client.Close(ctx)
}

// told makes a job tell the narrator when its work fails. Unsafe jobs also lose
// their lock.
func told(job jobs.Job, story *narrator, unsafe bool) jobs.Job {
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
	case unsafe:
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
