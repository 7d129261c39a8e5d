package daemons

import (
	"context"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	drainTimeout = 2 * time.Second
	stubborn     = "stubborn" // runs until it is cancelled, and has a hook
	brief        = "brief"    // runs until shortly after SIGTERM
)

// drainJobs are in the middle of their work when SIGTERM comes.
func drainJobs(daemon string, tell func(mark)) []jobs.Job {
	say := func(run jobs.Run, what, detail string) {
		tell(mark{At: time.Now(), Daemon: daemon, Job: run.Job, Instant: run.Scheduled, What: what, Detail: detail})
	}
	cleanup := func(ctx context.Context, run jobs.Run) error {
		hold, _ := lockguard.FromContext(ctx)
		say(run, cleaningUp, hold.Token().String())
		if err := ctx.Err(); err != nil {
			return err
		}
		say(run, cleanedUp, "")
		return nil
	}
	stays := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		say(run, began, "")
		<-ctx.Done()
		say(run, cancelled, context.Cause(ctx).Error())
		return context.Cause(ctx)
	})
	goes := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		terminated, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
		say(run, began, "")
		<-terminated.Done()
		timer := time.NewTimer(drainTimeout / 4)
		defer timer.Stop()
		select {
		case <-timer.C:
			say(run, ended, "")
			return nil
		case <-ctx.Done():
			say(run, cancelled, context.Cause(ctx).Error())
			return context.Cause(ctx)
		}
	})
	return []jobs.Job{
		{
			Name: stubborn, Schedule: "* * * * * *",
			Requirements: []lockguard.Requirement{{Scope: stubborn, CleanupTimeout: 10 * time.Second}},
			Work:         jobs.WithCleanup(stays, cleanup),
		},
		{
			Name: brief, Schedule: "* * * * * *",
			Requirements: []lockguard.Requirement{{Scope: brief}},
			Work:         goes,
		},
	}
}

func TestTerminatedDaemonWaitsThenCancelsCleansUpAndReleases(t *testing.T) {
	t.Parallel()
	// given a daemon in the middle of two runs
	story := newChronicle(t)
	leaving := settings{
		Name: "leaving", ZK: shared.Server(t).Connect(), Root: zkserver.Root(t), Session: session, Drain: drainTimeout, Cast: "drain",
	}
	k := startChild(t, story, leaving)
	run := story.first(leaving.Name, stubborn, began)
	other := story.first(leaving.Name, brief, began)

	// and somebody of the same importance who waits for the lock of one
	next := reader(t, leaving)
	taken := make(chan *lockguard.Hold, 1)
	waits := make(chan struct{})
	waiter, err := lockguard.New(next.client, lockguard.WithObserver(func(_ context.Context, event lockguard.Event) {
		if _, ok := event.(lockguard.Queued); ok {
			close(waits)
		}
	}))
	require.NoError(t, err)
	go func() {
		defer close(taken)
		if hold, err := waiter.Acquire(t.Context(), lockguard.Requirement{Scope: stubborn}); err == nil {
			taken <- hold
		}
	}()
	<-waits

	// when it is told to end
	terminated := time.Now()
	k.terminate()

	// then a run that ends by itself is waited for
	end := story.first(leaving.Name, brief, ended)
	require.Equal(t, other.Instant.UTC(), end.Instant.UTC())

	// the other one is cancelled after the drain timeout, and not before
	cancel := story.first(leaving.Name, stubborn, cancelled)
	require.GreaterOrEqual(t, cancel.At.Sub(terminated), drainTimeout)
	require.Less(t, cancel.At.Sub(terminated), drainTimeout+20*time.Second)
	require.Contains(t, cancel.Detail, lockguard.ErrShutdown.Error())

	// its hook runs, under the lock, and then the lock goes to the next in line at once
	hook := story.first(leaving.Name, stubborn, cleaningUp)
	cleaned := story.first(leaving.Name, stubborn, cleanedUp)
	hold, ok := <-taken
	require.True(t, ok)
	since := hold.Info().Since
	require.False(t, since.Before(cleaned.At), "the next holder began %s before the hook had ended", cleaned.At.Sub(since))
	require.Less(t, since.Sub(cleaned.At), session/4, "the lock was not given away: it fell free with the session")
	require.Greater(t, int64(hold.Token()), number(t, hook.Detail))
	require.NoError(t, hold.Release(t.Context()))

	// and it ends in good order, with all on record and nothing begun anew
	require.NoError(t, k.wait())
	// (what was claimed when the drain began may still run if its lock is free)
	require.LessOrEqual(t, len(where(story.all(), func(m mark) bool { return m.What == began })), 3)
	state := next.state(stubborn)
	require.Empty(t, state.Runs)
	require.Equal(t, recipes.TickInterrupted, state.Latest().Outcome)
	require.Equal(t, run.Instant.UTC(), state.Latest().Instant.UTC())
	state = next.state(brief)
	require.Empty(t, state.Runs)
	require.EqualValues(t, 1, state.Counts.Ran)
	require.NotEmpty(t, k.log.lines("level=INFO", "scheduler stops: no tick is fired any more", "runs=2"))
	require.NotEmpty(t, k.log.lines("level=WARN", "time to finish is over: cancelling what still runs", "stubborn"))
	require.NotEmpty(t, k.log.lines("level=INFO", "scheduler stopped"))
}
