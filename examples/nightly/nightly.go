package nightly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/observability/traces"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Config says where the daemons run, and to whom they tell what happens.
type Config struct {
	// Client says how to reach ZooKeeper, and under which root. Each daemon has
	// a client of its own; the first one's logs to Client.Logger.
	// SessionTimeout defaults to that of nightly.yaml.
	Client lock.Config

	// Colour paints the output, for a terminal. Defaults to plain text.
	Colour bool

	// Daemons is how many there are, 4 at most. Defaults to 2.
	Daemons int

	// Dir is where the data set is made. It must be empty or missing, and is
	// kept. Defaults to a temporary directory, which is removed, unless the data
	// was corrupted although there were locks.
	Dir string

	// Logger gets the logs of the daemons. Defaults to discarding.
	Logger *slog.Logger

	// Observer gets the events of the daemons' guards. Defaults to none.
	Observer lockguard.Observer

	// Out is where people read what happens, 80 columns wide. Defaults to
	// nowhere. When it cannot be written to any more, the daemons stop.
	Out io.Writer

	// Ready, when set, is called once all daemons have reached ZooKeeper, before
	// the first output. dir is where the data set is: it stays there if the process
	// ends before Run has returned.
	Ready func(dir string)

	// Tracer makes spans of the runs and their locks. Defaults to none.
	Tracer *traces.Tracer

	// Unsafe runs the same jobs without their locks, to show what locks are for.
	Unsafe bool
}

var daemonNames = []string{"A", "B", "C", "D"}

// connectTimeout is how long the daemons may take to reach ZooKeeper.
const connectTimeout = 5 * time.Second

// ErrNothingRan is returned by Run when no job has begun to work: that nothing
// is corrupted then proves nothing.
var ErrNothingRan = errors.New("no job has run, which proves nothing; let it run for longer, or see who has the lock")

// Run makes the data set and runs the daemons until ctx ends and their jobs
// have been drained. Then it reads everything again and returns what it found,
// corrupted or not. The error says that it could not begin, or could not tell;
// it is a *lock.UnavailableError when ZooKeeper does not answer, a
// *lock.AccessError when it refuses access, ErrNothingRan, or the cause of
// ctx when that ended before the daemons had reached ZooKeeper.
func Run(ctx context.Context, cfg Config) (report orders.Report, err error) {
	cfg.Daemons = cmp.Or(cfg.Daemons, 2)
	if cfg.Daemons < 1 || cfg.Daemons > len(daemonNames) {
		return report, fmt.Errorf("%d daemons are out of range; ask for 1 to %d", cfg.Daemons, len(daemonNames))
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := newPrinter(cmp.Or(cfg.Out, io.Discard), cfg.Colour, cancel)

	set, remove, err := dataSet(cfg.Dir)
	if err != nil {
		return report, err
	}
	line := newTimeline(out)
	names := daemonNames[:cfg.Daemons]
	crew, err := newCrew(ctx, cfg, names, set, line)
	if err != nil {
		return report, errors.Join(err, remove())
	}
	if cfg.Ready != nil {
		cfg.Ready(set.Dir())
	}
	explain(out, crew[0].jobs, names, cfg.Unsafe)
	contend(ctx, cancel, crew, line)
	if denied, ok := errors.AsType[*lock.AccessError](context.Cause(ctx)); ok {
		return report, errors.Join(denied, remove())
	}

	report, err = judge(out, set, line, names, cfg.Unsafe)
	switch {
	case cfg.Dir != "":
		out.printf("  The data set is in %s\n\n", set.Dir())
	case out.failure() == nil && (err != nil || !report.Sound() && !cfg.Unsafe):
		out.printf("  The data set is kept in %s\n\n", set.Dir())
	default:
		err = errors.Join(err, remove())
	}
	if err == nil && line.past.worked() == 0 {
		err = ErrNothingRan
	}
	return report, errors.Join(err, out.failure())
}

// newCrew makes the daemons and waits until all have reached ZooKeeper and may
// work there.
func newCrew(
	ctx context.Context, cfg Config, names []string, set *orders.Set, line *timeline,
) (crew []*daemon, err error) {
	defer func() {
		if err != nil {
			dismiss(crew)
		}
	}()
	for _, name := range names {
		d, err := newDaemon(name, cfg, set, line)
		if err != nil {
			return crew, err
		}
		crew = append(crew, d)
		cfg.Client.Logger = nil // what one says of ZooKeeper, the others would repeat
	}
	ready, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for _, d := range crew {
		err := d.look(ready)
		if err != nil && ctx.Err() != nil {
			return crew, context.Cause(ctx) // it is unknown whether ZooKeeper would have answered
		}
		if down, ok := errors.AsType[*lock.UnavailableError](err); ok {
			return crew, down
		}
		if err != nil {
			return crew, err
		}
	}
	return crew, nil
}

func dismiss(crew []*daemon) {
	var closing sync.WaitGroup
	for _, d := range crew {
		closing.Go(d.close)
	}
	closing.Wait()
}

// opening is how long the first run has the lock to itself.
const opening = 2 * time.Second

// contend runs the daemons until ctx ends and their jobs have been drained. stop
// ends ctx, with the reason why the jobs cannot work.
func contend(ctx context.Context, stop func(error), crew []*daemon, line *timeline) {
	var running sync.WaitGroup
	byHand := func(d *daemon, after time.Duration, job string) {
		if err := d.runNow(ctx, after, job); err != nil {
			stop(err)
		}
	}
	for _, d := range crew {
		running.Go(func() { d.run(ctx) })
	}
	// The first preemption does not wait for the schedule.
	running.Go(func() { byHand(crew[0], 0, "compact") })
	running.Go(func() { byHand(crew[len(crew)-1], opening, "hotfix") })
	listening, deaf := context.WithCancel(context.WithoutCancel(ctx)) // the drain, too, may have to wait for ZooKeeper
	var pulse sync.WaitGroup
	pulse.Go(func() { crew[0].feelPulse(listening, line) })
	ended := make(chan struct{})
	go func() {
		running.Wait()
		deaf()
		pulse.Wait()
		dismiss(crew)
		close(ended)
	}()
	line.follow(ctx, crew[0].drain, ended)
}
