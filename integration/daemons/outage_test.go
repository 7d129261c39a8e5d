package daemons

import (
	"context"
	"fmt"
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

func TestPreemptedJobCleansUpWhileZooKeeperIsDownAndThenGivesTheLockAway(t *testing.T) {
	t.Parallel()
	const holder = "holder" // a job that is due every second, and keeps its lock until it is cancelled
	zk, story, goOn := zkserver.Start(t, longSessions), newChronicle(t), make(chan struct{})
	say := func(run jobs.Run, what, detail string) {
		story.add(mark{At: time.Now(), Daemon: "daemon", Job: run.Job, Instant: run.Scheduled, What: what, Detail: detail})
	}
	work := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		hold, _ := lockguard.FromContext(ctx)
		say(run, began, hold.Token().String())
		<-ctx.Done()
		say(run, cancelled, context.Cause(ctx).Error())
		return context.Cause(ctx)
	})
	hook := func(ctx context.Context, run jobs.Run) error {
		say(run, cleaningUp, "")
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		say(run, cleanedUp, fmt.Sprint(context.Cause(ctx)))
		return context.Cause(ctx)
	}
	of := settings{Name: "daemon", ZK: zk.Connect(), Root: "/outage", Session: session, Drain: -1}
	d := start(t, of, jobs.Job{
		Name: holder, Schedule: "* * * * * *", Work: jobs.WithCleanup(work, hook),
		Requirements: []lockguard.Requirement{{
			Scope: holder, Terms: priority.Terms{CleanupTimeout: time.Minute, LeaseTimeout: time.Hour},
		}},
	})
	held := story.first(holder, began)

	// given a job that was preempted by a more important one, and cleans up
	other := reader(t, of)
	taken := harness.Go(t, "the more important request", func() (*lockguard.Hold, error) {
		return other.guard.Acquire(t.Context(), lockguard.Requirement{Scope: holder, Terms: priority.Terms{Priority: 9}, Owner: "important"})
	})
	asked := story.first(holder, cancelled)
	require.Contains(t, asked.Detail, `lock "holder" preempted by "important" (priority 9)`)
	story.first(holder, cleaningUp)

	// when ZooKeeper dies meanwhile
	from := len(d.log.String())
	require.NoError(t, zk.Kill())
	d.log.await(from, "level=WARN", "connection to ZooKeeper lost")
	close(goOn)

	// then the cleanup goes on to its end, under the lock
	over := story.first(holder, cleanedUp)
	require.Equal(t, held.Instant, over.Instant)
	require.Equal(t, "<nil>", over.Detail, "the context of the hook has ended before the hook")
	taken.IsPending() // no client could know yet

	// and when ZooKeeper is back, the lock goes to the more important one
	require.NoError(t, zk.Restart(t.Context()))
	hold := taken.Granted()
	before, err := strconv.ParseInt(held.Detail, 10, 64)
	require.NoError(t, err)
	require.Greater(t, int64(hold.Token()), before)
	require.NoError(t, hold.Release(t.Context()))

	// the preempted job has its turn again, and its end is on record
	story.next(over.At, holder, began)
	harness.Eventually(t, func() bool { return d.state(holder).Counts.Preempted == 1 }, "the preempted run is recorded")
	require.Empty(t, d.log.lines(0, "lock lost"))
}
