package daemons

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

const (
	plain  = "plain"  // needs no lock
	locked = "locked" // needs one, for a moment
	holder = "holder" // keeps its lock until it is cancelled, and has a hook
)

// A fixture is a ZooKeeper of its own and what happens in one daemon.
type fixture struct {
	t       *testing.T
	story   *chronicle
	zk      *zkserver.Server
	proceed chan struct{} // lets one run of holder end
	hook    func(ctx context.Context) error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{
		t: t, story: newChronicle(t), zk: zkserver.Start(t, longSessions), proceed: make(chan struct{}),
		hook: func(context.Context) error { return nil },
	}
}

func (h *fixture) settings(session time.Duration) settings {
	return settings{Name: "daemon", ZK: h.zk.Connect(), Root: "/outage", Session: session, Drain: -1}
}

// jobs are due every second.
func (h *fixture) jobs(names ...string) []jobs.Job {
	say := func(run jobs.Run, what string, detail string) {
		h.story.add(mark{At: time.Now(), Daemon: "daemon", Job: run.Job, Instant: run.Scheduled, What: what, Detail: detail})
	}
	short := jobs.Func(func(_ context.Context, run jobs.Run) error {
		say(run, began, "")
		return nil
	})
	long := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		hold, _ := lockguard.FromContext(ctx)
		say(run, began, hold.Token().String())
		select {
		case <-h.proceed:
			say(run, ended, hold.Token().String())
			return nil
		case <-ctx.Done():
			say(run, cancelled, context.Cause(ctx).Error())
			return context.Cause(ctx)
		}
	})
	hook := func(ctx context.Context, run jobs.Run) error {
		say(run, cleaningUp, causeText(ctx))
		err := h.hook(ctx)
		say(run, cleanedUp, causeText(ctx))
		return err
	}
	all := map[string]jobs.Job{
		plain:  {Work: short},
		locked: {Work: short, Requirements: []lockguard.Requirement{{Scope: locked}}},
		holder: {
			Work:         jobs.WithCleanup(long, hook),
			Requirements: []lockguard.Requirement{{Scope: holder, Terms: priority.Terms{CleanupTimeout: time.Minute, LeaseTimeout: time.Hour}}},
		},
	}
	var chosen []jobs.Job
	for _, name := range names {
		job := all[name]
		job.Name, job.Schedule = name, "* * * * * *"
		chosen = append(chosen, job)
	}
	return chosen
}

// number reads a token.
func number(t *testing.T, token string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(token, 10, 64)
	require.NoError(t, err)
	return n
}

func causeText(ctx context.Context) string {
	if ctx.Err() == nil {
		return ""
	}
	return context.Cause(ctx).Error()
}

// letGo lets one run of holder end.
func (h *fixture) letGo() {
	h.t.Helper()
	select {
	case h.proceed <- struct{}{}:
	case <-time.After(harness.Patience):
		require.FailNow(h.t, "the lock is free")
	}
}

func (h *fixture) kill() time.Time {
	h.t.Helper()
	require.NoError(h.t, h.zk.Kill())
	return time.Now()
}

func (h *fixture) restart() time.Time {
	h.t.Helper()
	back := time.Now() // before it serves: what begins while it starts counts
	require.NoError(h.t, h.zk.Restart(h.t.Context()))
	return back
}

func TestDaemonStartsBeforeZooKeeperAndOutlivesItsOutage(t *testing.T) {
	t.Parallel()
	const expiry = 6 * time.Second
	h := newFixture(t)

	// given a ZooKeeper that is down when the daemon starts
	h.kill()
	d := start(t, h.settings(expiry), h.jobs(plain, locked, holder)...)

	// then the daemon says why no job runs: it does not know ZooKeeper's clock
	d.log.await(0, "level=WARN", "ZooKeeper does not answer, trying on", "servers="+h.zk.Addr())
	require.Zero(t, h.story.count(began))

	// and when ZooKeeper comes, all run
	h.restart()
	d.log.await(0, "level=INFO", "connected to ZooKeeper")
	h.story.first(plain, began)
	h.story.first(locked, began)
	held := h.story.first(holder, began)

	// when ZooKeeper dies in the middle
	from := len(d.log.String())
	died := h.kill()

	// then the daemon says so,
	d.log.await(from, "level=WARN", "connection to ZooKeeper lost", "holding on until the session's deadline")
	d.log.await(from, "level=WARN", "ZooKeeper is silent, the lock will be lost unless it answers", "scope="+holder)
	d.log.await(from, "level=WARN", "lock lost", "scope="+holder, "token="+held.Detail)
	// a holder is notified before the server could give its lock away,
	lost := h.story.first(holder, cancelled)
	require.Contains(t, lost.Detail, `lock "holder" lost: ZooKeeper has not answered in time`)
	require.Less(t, lost.At.Sub(died), expiry)
	// its cleanup runs, and knows that the lock is no longer held,
	hook := h.story.first(holder, cleanedUp)
	require.Equal(t, lost.Detail, hook.Detail)
	// and the ticks are skipped with a reason
	d.log.await(from, "level=WARN", "tick skipped", "job="+plain, "reason=undecided", "ZooKeeper at "+h.zk.Addr()+" does not answer since")
	d.log.await(from, "level=WARN", "tick skipped", "job="+locked, "reason=undecided", "ZooKeeper at "+h.zk.Addr()+" does not answer since")

	// when it is back
	from = len(d.log.String())
	back := h.restart()

	// then all go on by themselves, under a new session and a later token
	d.log.await(from, "level=INFO", "connected to ZooKeeper")
	h.story.next(back, plain, began)
	h.story.next(back, locked, began)
	again := h.story.next(back, holder, began)
	require.Greater(t, number(t, again.Detail), number(t, held.Detail))
	h.letGo()
	h.story.next(back, holder, ended)

	// and the end of each run is on record, that of the lost one as well
	harness.Eventually(t, func() bool { return d.state(holder).Counts.Ran > 0 }, "the run is recorded")
	counts := d.state(holder).Counts
	require.EqualValues(t, 1, counts.Lost+counts.Interrupted, "%+v", counts)
	require.Positive(t, d.state(plain).Counts.Skipped[ticks.ReasonUndecided])

	// and no cleanup is lost, that of the daemon's end included
	h.story.next(back, holder, began)
	d.end()
	require.Positive(t, h.story.count(cancelled))
	require.Equal(t, h.story.count(cancelled), h.story.count(cleanedUp))
	require.Empty(t, d.log.lines(0, "panic"))
}

func TestPreemptedJobCleansUpWhileZooKeeperIsDownAndThenGivesTheLockAway(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	goOn := make(chan struct{})
	h.hook = func(ctx context.Context) error {
		select {
		case <-goOn:
			return ctx.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	d := start(t, h.settings(session), h.jobs(holder)...)
	held := h.story.first(holder, began)

	// given a job that was preempted by a more important one, and cleans up
	other := reader(t, h.settings(session))
	taken := harness.Go(t, "the more important request", func() (*lockguard.Hold, error) {
		return other.guard.Acquire(t.Context(), lockguard.Requirement{Scope: holder, Terms: priority.Terms{Priority: 9}, Owner: "important"})
	})
	asked := h.story.first(holder, cancelled)
	require.Contains(t, asked.Detail, `lock "holder" preempted by "important" (priority 9)`)
	h.story.first(holder, cleaningUp)

	// when ZooKeeper dies meanwhile
	from := len(d.log.String())
	h.kill()
	d.log.await(from, "level=WARN", "connection to ZooKeeper lost")
	close(goOn)

	// then the cleanup goes on to its end, under the lock
	hook := h.story.first(holder, cleanedUp)
	require.Equal(t, held.Instant, hook.Instant)
	require.Empty(t, hook.Detail, "the context of the hook has ended before the hook")
	taken.IsPending() // no client could know yet

	// and when ZooKeeper is back, the lock goes to the more important one
	h.restart()
	hold := taken.Granted()
	require.Greater(t, int64(hold.Token()), number(t, held.Detail))
	require.NoError(t, hold.Release(t.Context()))

	// the preempted job has its turn again, and its end is on record
	h.story.next(hook.At, holder, began)
	harness.Eventually(t, func() bool { return d.state(holder).Counts.Preempted == 1 }, "the preempted run is recorded")
	require.Empty(t, d.log.lines(0, "lock lost"))
}
