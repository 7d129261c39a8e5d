package schedules

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

var errBoom = errors.New("boom")

// failing is work that fails so often, after a second each time, and then
// succeeds.
func (w *world) failing(times int) jobs.Func {
	return w.seen(func(context.Context, jobs.Run) error {
		<-time.After(time.Second)
		if times--; times >= 0 {
			return errBoom
		}
		return nil
	})
}

// A rival is somebody who wants locks, with a client of its own.
type rival struct {
	w     *world
	guard *lockguard.Guard
}

func (w *world) rival(name string) *rival {
	w.Helper()
	guard, err := lockguard.New(w.client(name, long), lockguard.WithOwner(name))
	require.NoError(w.T, err)
	return &rival{w, guard}
}

// takes holds a lock for a while, and returns when it had it: ended is closed when it has given it back.
func (r *rival) takes(scope string, level priority.Level, d time.Duration) (at time.Duration, ended <-chan struct{}) {
	r.w.Helper()
	got := make(chan time.Duration, 1)
	hold := harness.Go(r.w.T, "the rival", func() (struct{}, error) {
		wants := lockguard.Requirement{Scope: scope, Terms: priority.Terms{Priority: level}}
		return struct{}{}, r.guard.Do(r.w.Context(), wants, func(ctx context.Context) error {
			r.w.History.Add("rival", "has %s", scope)
			got <- r.w.Now()
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return nil
		})
	})
	r.w.Cleanup(func() { <-hold.Done() })
	select {
	case at = <-got:
	case <-time.After(day):
		require.FailNow(r.w.T, "the rival never had the lock")
	}
	return at, hold.Done()
}

// tries reports whether a lock is free.
func (r *rival) tries(scope string) bool {
	r.w.Helper()
	now := time.Duration(0)
	err := r.guard.Do(r.w.Context(), lockguard.Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: &now}}, func(context.Context) error { return nil })
	if err != nil {
		require.ErrorAs(r.w.T, err, new(*lock.NotAcquiredError))
	}
	return err == nil
}

func TestALockIsKeptAsLongAsItHasToBeAndNoLongerThanSomebodyWaits(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a job that is done in a second and holds its lock for twenty
		j := locked(w.job("a", "@every 1m", time.Second), "db")
		j.HoldAtLeast, j.Requirements[0].CleanupTimeout = 20*time.Second, 10*time.Second
		j.Work = jobs.WithCleanup(j.Work, func(context.Context, jobs.Run) error {
			t.Error("only the hold was cut short")
			return nil
		})
		one, two := w.daemon("one", []jobs.Job{j}), w.daemon("two", []jobs.Job{j}, skewed(-2*time.Second))
		other := w.rival("rival")

		// then a try finds it held
		w.Until(time.Minute + 19*time.Second)
		require.Zero(t, w.goesOn("a"))
		require.False(t, other.tries("db"))
		require.Empty(t, w.book("a").ends)
		w.Pass(2 * time.Second)
		require.True(t, other.tries("db"))
		require.Equal(t, time.Second, w.end("a", time.Minute).Took)

		// and a more important request gets it at once
		w.Until(2*time.Minute + 5*time.Second)
		granted, _ := other.takes("db", 5, time.Second)
		require.Less(t, granted, 2*time.Minute+6*time.Second)
		w.Pass(2 * time.Second)
		end := w.end("a", 2*time.Minute)
		require.Equal(t, ticks.Ran, end.Outcome)
		require.Zero(t, end.Preemptions)
		drainAll(one, two)
	})
}

func TestFailuresInARowPauseTheJobEverywhereUntilATrialSucceeds(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given two daemons with a job that fails five times
		j := w.job("a", "@every 10s", 0)
		j.Work, j.PauseAfterFailures, j.PauseFor = w.failing(5), 3, 25*time.Second
		one, two := w.daemon("one", []jobs.Job{j}), w.daemon("two", []jobs.Job{j}, skewed(100*time.Millisecond))

		// then it is paused after three, after each trial that fails, and no more when one succeeds
		w.Until(2*time.Minute + 15*time.Second)
		requireTicks(t, w.outcomes("a"), "failed", "failed", "failed", "paused", "paused", "failed", "paused", "paused", "failed", "paused", "paused", "ran")
		require.Zero(t, w.state("a").Failures)
		require.Nil(t, w.state("a").Paused)
		drainAll(one, two)
	})
}

func TestPauseAndResumeAreForAllDaemons(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a job that has failed twice of the three times that pause it, and is paused by somebody while it is due
		j := w.job("a", "@every 10s", 0)
		j.Work, j.PauseAfterFailures = w.failing(4), 3
		one, two := w.daemon("one", []jobs.Job{j}), w.daemon("two", []jobs.Job{j}, skewed(100*time.Millisecond))
		w.Until(25 * time.Second)
		_, err := w.ledger.Pause(t.Context(), "a", ticks.Pause{By: "ana", Reason: "disk is full"})
		require.NoError(t, err)

		// when it is resumed
		w.Until(45 * time.Second)
		was, err := w.ledger.Resume(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, "ana", was.By)

		// then failures count from there on
		w.Until(95 * time.Second)
		require.Equal(t, []string{"failed", "failed", "paused", "paused", "failed", "failed", "ran", "ran", "ran"}, w.outcomes("a"))
		skipped := one.stats("a").Skipped[scheduler.SkipPaused] + two.stats("a").Skipped[scheduler.SkipPaused]
		require.EqualValues(t, 2, skipped)

		// and a pause that has an end ends by itself
		_, err = w.ledger.Pause(t.Context(), "a", ticks.Pause{By: "ana", Until: w.at(110 * time.Second)})
		require.NoError(t, err)
		h := w.ask("a", "INC-7")
		require.NoError(t, h.AwaitTaken(t.Context()), "a job that is paused runs by hand")
		w.Until(115 * time.Second)
		require.Equal(t, []string{"paused", "ran"}, w.outcomes("a")[9:])
		require.Equal(t, ticks.Ran, w.book("a").ends[h.ID()].Outcome)
		drainAll(one, two)
	})
}
