package schedules

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	short  = 10 * time.Second // the session of a daemon, as a rule
	expiry = 12 * time.Second // it ends that much later at most, at a whole tick of the server
	long   = time.Hour        // the longest session: few pings in many hours
	day    = 24 * time.Hour
)

// A world is a server, the daemons that use it and the chronicle. It begins at midnight UTC on 1 January 2000.
type world struct {
	*virtual.World

	session   time.Duration // of the daemons that are started from now on
	chronicle *chronicle
	ledger    *ticks.Ledger // of an onlooker, to whom nothing happens
	onlooker  *lock.Client

	mu    sync.Mutex
	calls []*call
}

// A call is one time that work was at work.
type call struct {
	job, run     string
	tick         time.Time // zero: by hand
	began, ended time.Duration
	cause        error // of its context, when it ended
}

// story runs a test in a world of its own, beside others, and closes the books
// at its end.
func story(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	virtual.Run(t, func(v *virtual.World) {
		w := &world{World: v, session: short}
		w.onlooker = w.client("onlooker", long)
		w.ledger = w.onlooker.TickLedger("onlooker")
		w.chronicle = newChronicle(w.T, w.client("chronicle", long).TickLedger("chronicle"))
		w.Until(5 * time.Second) // nothing is due yet on any clock
		f(w.T, w)
		w.chronicle.close(w)
	}, zktest.SweepInterval(day))
}

// variant is story as a subtest.
func variant(t *testing.T, name string, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { story(t, f) })
}

// at is an instant of a schedule.
func (w *world) at(since time.Duration) time.Time { return w.At(since).UTC().Round(0) }

// client connects under a name.
func (w *world) client(name string, timeout time.Duration) *lock.Client {
	w.Helper()
	c := w.Connect(name, timeout)
	w.Cleanup(func() { w.Heal(name) }) // before it is closed
	return c
}

// --- work ---------------------------------------------------------------------

// job is a job of which each run takes that long, or less when it is cancelled.
func (w *world) job(name, schedule string, takes time.Duration) jobs.Job {
	return jobs.Job{Name: name, Schedule: schedule, Work: w.lasting(takes)}
}

// lasting is work that takes that long, and ends earlier when it is cancelled.
func (w *world) lasting(d time.Duration) jobs.Func {
	return w.seen(func(ctx context.Context, _ jobs.Run) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// deaf is work that hears nothing until it is released, at the end of the test
// at the latest.
func (w *world) deaf() (work jobs.Func, release func()) {
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	w.Cleanup(func() {
		release()
		w.Pass(time.Minute)
	})
	return w.seen(func(context.Context, jobs.Run) error {
		<-released
		return nil
	}), release
}

// seen is work that the world knows of.
func (w *world) seen(work jobs.Func) jobs.Func {
	return func(ctx context.Context, run jobs.Run) error {
		c := &call{job: run.Job, run: run.Attempt, tick: run.Scheduled, began: w.Now(), ended: -1}
		w.mu.Lock()
		w.calls = append(w.calls, c)
		w.mu.Unlock()
		w.History.Add("work", "%s %s begins", c.job, c.tick)
		err := work(ctx, run)
		w.History.Add("work", "%s %s ends: %v (%v)", c.job, c.tick, err, context.Cause(ctx))
		w.mu.Lock()
		defer w.mu.Unlock()
		c.ended, c.cause = w.Now(), context.Cause(ctx)
		return err
	}
}

// worked returns the times that work of a job was at work, so far.
func (w *world) worked(job string) (all []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.job == job {
			all = append(all, *c)
		}
	}
	return all
}

// goesOn tells how many runs of a job are at work now.
func (w *world) goesOn(job string) (n int) {
	for _, c := range w.worked(job) {
		if c.ended < 0 {
			n++
		}
	}
	return n
}

// --- daemons ------------------------------------------------------------------

// A daemon is a scheduler with a client, a guard and a ledger of its own.
type daemon struct {
	*scheduler.Scheduler
	w       *world
	name    string
	client  *lock.Client
	ledger  *ticks.Ledger
	program *virtual.Program
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // of Run, once it has ended

	mu  sync.Mutex
	log strings.Builder
}

type option func(*daemon, *scheduler.Config)

// skewed is a daemon whose clock is that much ahead.
func skewed(d time.Duration) option {
	return func(_ *daemon, cfg *scheduler.Config) {
		cfg.Now = func() time.Time { return time.Now().Add(d) }
	}
}

// spread is a daemon that owns some of the jobs.
func spread(d *daemon, cfg *scheduler.Config) { cfg.Spread = scheduler.SpreadOver(d.client, d.name) }

// daemon starts one whose connections have its name.
func (w *world) daemon(name string, list []jobs.Job, options ...option) *daemon {
	w.Helper()
	d := &daemon{w: w, name: name, client: w.client(name, w.session), ended: make(chan struct{})}
	d.ledger = d.client.TickLedger(name)
	d.program = w.Guard(name, d.client)
	cfg := scheduler.Config{Guard: d.program.Guard, Ledger: d.ledger, Logger: slog.New(slog.NewTextHandler(d, nil))}
	for _, change := range options {
		change(d, &cfg)
	}
	var err error
	d.Scheduler, err = scheduler.New(cfg)
	require.NoError(w.T, err)
	for _, job := range list {
		require.NoError(w.T, d.Add(job))
		w.chronicle.follow(job)
	}
	var ctx context.Context
	ctx, d.stop = context.WithCancel(w.Context())
	go func() {
		defer close(d.ended)
		d.err = d.Run(ctx)
	}()
	w.Cleanup(func() {
		w.Heal(name)
		d.stop()
		<-d.ended
	})
	synctest.Wait()
	return d
}

// Write takes a line of the daemon's log.
func (d *daemon) Write(line []byte) (int, error) {
	_, text, _ := strings.Cut(strings.TrimSpace(string(line)), "level=")
	d.w.History.Add(d.name, "%s", text)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(line)
}

// said reports whether the daemon has some words in its log.
func (d *daemon) said(words string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(d.log.String(), words)
}

// drain ends the daemon in good order, and waits until it has.
func (d *daemon) drain() {
	d.w.Helper()
	d.stop()
	<-d.ended
	require.NoError(d.w.T, d.err)
	require.NoError(d.w, d.client.Close(d.w.Context()))
	synctest.Wait()
}

// cut lets nothing of the daemon through to the server any more; it goes on
// working. Its session ends after expiry at most.
func (d *daemon) cut() { d.w.Partition(d.name) }

// isConnected reports whether the daemon has a connection now.
func (d *daemon) isConnected() bool {
	id, _ := d.client.Session()
	return slices.ContainsFunc(d.w.Sessions(), func(s zktest.Session) bool { return s.ID == id && s.Connected })
}

// expire ends the daemon's session at the server.
func (d *daemon) expire() {
	id, _ := d.client.Session()
	require.True(d.w.T, d.w.Expire(id))
}

// kill ends the daemon as kill -9 does, as far as the others can see: nothing
// of it comes through any more, and its work ends.
func (d *daemon) kill() {
	d.cut()
	d.stop()
	synctest.Wait()
	d.Hurry()
	d.Hurry()
}

func (d *daemon) stats(job string) scheduler.JobStats { return d.Stats()[job] }

// told returns the events with a notice of a kind that the daemon's observers were told.
func told[N lock.Notice](d *daemon) []lockguard.Event { return virtual.Events[N](d.program) }

// owner returns the daemon that runs a job, and the other one.
func (w *world) owner(job string, one, two *daemon) (owner, other *daemon) {
	w.Helper()
	if w.state(job).Runs[0].Owner == two.name {
		return two, one
	}
	return one, two
}

// drainAll stops all of them at once.
func drainAll(all ...*daemon) {
	for _, d := range all {
		d.stop()
	}
	for _, d := range all {
		d.drain()
	}
}

// locked is a job that needs locks.
func locked(j jobs.Job, scopes ...string) jobs.Job {
	for _, scope := range scopes {
		j.Requirements = append(j.Requirements, lockguard.Requirement{Scope: scope})
	}
	return j
}
