package daemons

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

// settings are what a daemon is started with; a child gets them as JSON.
type settings struct {
	Name    string
	ZK      string
	Root    string
	Session time.Duration
	Drain   time.Duration
	Jobs    int // how many a child runs

	// Skew and Drift move the clock that schedules are read by: it is Skew
	// ahead at first, and gains Drift in each second.
	Skew, Drift time.Duration

	// Jumps set that clock to another skew, one after the other, so long after the
	// start.
	Jumps []jump
}

type jump struct{ After, Skew time.Duration }

// clock returns the clock of a daemon, nil for the machine's own.
func (s settings) clock() func() time.Time {
	if s.Skew == 0 && s.Drift == 0 && len(s.Jumps) == 0 {
		return nil
	}
	start := time.Now()
	return func() time.Time {
		age, skew := time.Since(start), s.Skew
		for _, j := range s.Jumps {
			if age >= j.After {
				skew = j.Skew
			}
		}
		drift := time.Duration(age.Seconds() * float64(s.Drift))
		return time.Now().Add(skew + drift)
	}
}

// A daemon is what `lockkeeper run` makes of a configuration.
type daemon struct {
	client    *lock.Client
	guard     *lockguard.Guard
	ledger    *ticks.Ledger
	scheduler *scheduler.Scheduler
}

func newDaemon(s settings, log io.Writer, all ...jobs.Job) (*daemon, error) {
	logger := slog.New(slog.NewTextHandler(log, nil))
	servers, _, err := lock.ParseServers(s.ZK)
	if err != nil {
		return nil, err
	}
	d := &daemon{}
	d.client, err = lock.NewClient(lock.Config{Logger: logger, Root: s.Root, Servers: servers, SessionTimeout: s.Session})
	if err != nil {
		return nil, err
	}
	logs := lockguard.WithObserver(lockguard.LogObserver(logger))
	d.guard, err = lockguard.New(d.client, lockguard.WithLogger(logger), logs)
	if err != nil {
		return nil, err
	}
	d.ledger = d.client.TickLedger(s.Name)
	d.scheduler, err = scheduler.New(scheduler.Config{
		Drain: scheduler.Drain{Finish: s.Drain}, Guard: d.guard, Ledger: d.ledger, Logger: logger, Now: s.clock(),
	})
	for _, job := range all {
		if err == nil {
			err = d.scheduler.Add(job)
		}
	}
	return d, err
}

// run runs the daemon until ctx ends and it has drained.
func (d *daemon) run(ctx context.Context) error {
	err := d.scheduler.Run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, d.client.Close(closing))
}

// A resident is a daemon that lives in the process of the test.
type resident struct {
	*daemon
	t   *testing.T
	log *logbook
}

// start starts a daemon in this process. It is stopped with the test.
func start(t *testing.T, s settings, all ...jobs.Job) *resident {
	t.Helper()
	r := &resident{t: t, log: newLogbook(t, s.Name)}
	var err error
	r.daemon, err = newDaemon(s, r.log, all...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	run := harness.Go(t, s.Name, func() (struct{}, error) { return struct{}{}, r.run(ctx) })
	t.Cleanup(func() {
		stop()
		run.Granted()
	})
	return r
}

// state returns what the ledger knows about a job.
func (r *resident) state(job string) ticks.State {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), harness.Patience)
	defer cancel()
	state, err := r.ledger.State(ctx, job)
	require.NoError(r.t, err)
	return state
}

// reader returns a daemon without jobs.
func reader(t *testing.T, s settings) *resident {
	t.Helper()
	s.Name = "reader"
	return start(t, s)
}
