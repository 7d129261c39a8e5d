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
)

const holder = "holder" // a job that keeps its lock until it is cancelled, and has a hook

// A fixture is a ZooKeeper of its own and what happens in one daemon.
type fixture struct {
	t     *testing.T
	story *chronicle
	zk    *zkserver.Server
	hook  func(ctx context.Context) error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t: t, story: newChronicle(t), zk: zkserver.Start(t, longSessions)}
}

func (h *fixture) settings(session time.Duration) settings {
	return settings{Name: "daemon", ZK: h.zk.Connect(), Root: "/outage", Session: session, Drain: -1}
}

// holder is due every second.
func (h *fixture) holder() jobs.Job {
	say := func(run jobs.Run, what string, detail string) {
		h.story.add(mark{At: time.Now(), Daemon: "daemon", Job: run.Job, Instant: run.Scheduled, What: what, Detail: detail})
	}
	long := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		hold, _ := lockguard.FromContext(ctx)
		say(run, began, hold.Token().String())
		<-ctx.Done()
		say(run, cancelled, context.Cause(ctx).Error())
		return context.Cause(ctx)
	})
	hook := func(ctx context.Context, run jobs.Run) error {
		say(run, cleaningUp, causeText(ctx))
		err := h.hook(ctx)
		say(run, cleanedUp, causeText(ctx))
		return err
	}
	return jobs.Job{
		Name: holder, Schedule: "* * * * * *", Work: jobs.WithCleanup(long, hook),
		Requirements: []lockguard.Requirement{{
			Scope: holder, Terms: priority.Terms{CleanupTimeout: time.Minute, LeaseTimeout: time.Hour},
		}},
	}
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

func (h *fixture) kill() {
	h.t.Helper()
	require.NoError(h.t, h.zk.Kill())
}

func (h *fixture) restart() {
	h.t.Helper()
	require.NoError(h.t, h.zk.Restart(h.t.Context()))
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
	d := start(t, h.settings(session), h.holder())
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
