package schedules

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

func draining(drain scheduler.Drain) option {
	return func(_ *daemon, cfg *scheduler.Config) { cfg.Drain = drain }
}

// cleaned is a job under a lock whose cleanup takes that long, under the lock.
func (w *world) cleaned(j jobs.Job, takes time.Duration) jobs.Job {
	j = locked(j, "db")
	j.Requirements[0].CleanupTimeout = time.Minute
	j.Work = jobs.WithCleanup(j.Work, func(ctx context.Context, _ jobs.Run) error {
		hold, ok := lockguard.FromContext(ctx)
		require.True(w.T, ok)
		w.History.Add("hook", "begins: %v", context.Cause(ctx))
		<-time.After(takes)
		require.NoError(w.T, hold.Check(), "the lock is held until the hook has returned")
		w.History.Add("hook", "ends")
		return nil
	})
	return j
}

// phases waits for the end of a daemon and returns what happened when, since
// now: the end of the work, of the hook, the release and the end of Run.
func phases(w *world, d *daemon) map[string]time.Duration {
	began := w.Now()
	d.stop()
	<-d.ended
	at := map[string]time.Duration{"run": w.Now() - began}
	for _, c := range w.worked("a") {
		at["work"] = c.ended - began
	}
	for _, e := range told[lockguard.CleanupDone](d) {
		at["hook"] = w.Since(e.At) - began
	}
	at["release"] = w.released(d) - began
	return at
}

// released is when a daemon has given a lock back.
func (w *world) released(d *daemon) (at time.Duration) {
	for _, e := range told[lockguard.Released](d) {
		at = w.Since(e.At)
	}
	return at
}

func TestTheDrainLetsRunsFinishThenCancelsCleansUpAndReleases(t *testing.T) {
	drain := scheduler.Drain{Finish: 20 * time.Second, Cancel: 10 * time.Second, Release: 5 * time.Second}
	cases := map[string]struct {
		takes   time.Duration // from 1:00 on
		hurries []time.Duration
		want    map[string]time.Duration // since 1:05
		outcome string
	}{
		"it ends by itself":    {15 * time.Second, nil, map[string]time.Duration{"work": 10, "release": 10, "run": 10}, "ran"},
		"it has to be told":    {time.Hour, nil, map[string]time.Duration{"work": 20, "hook": 27, "release": 27, "run": 27}, "interrupted"},
		"somebody is in haste": {time.Hour, []time.Duration{3 * time.Second}, map[string]time.Duration{"work": 3, "hook": 10, "release": 10, "run": 10}, "interrupted"},
	}
	for name, c := range cases {
		variant(t, name, func(t *testing.T, w *world) {
			// given a run under a lock, and another daemon
			j := w.cleaned(w.job("a", "@every 1m", c.takes), 7*time.Second)
			one := w.daemon("one", []jobs.Job{j}, skewed(100*time.Millisecond), draining(drain))
			two := w.daemon("two", []jobs.Job{j}, draining(drain))
			w.Until(time.Minute + 5*time.Second)
			owner, other := w.owner("a", one, two)

			// and somebody who waits for the lock
			next, granted := w.rival("next"), make(chan time.Duration, 1)
			go func() {
				at, _ := next.takes("db", 0, time.Millisecond)
				granted <- at
			}()
			w.Pass(time.Millisecond)

			// when its daemon is stopped
			for _, after := range c.hurries {
				go func() { <-time.After(after); owner.Hurry() }()
			}
			got := phases(w, owner)

			// then each phase takes its time and no more
			for what, at := range c.want {
				require.InDelta(t, float64(at), float64(got[what])/float64(time.Second), 0.2, "%s: %v", what, got)
			}
			require.Equal(t, c.outcome, string(w.end("a", time.Minute).Outcome))
			if c.outcome == "interrupted" {
				require.ErrorIs(t, w.worked("a")[0].cause, lockguard.ErrShutdown)
			}
			require.InDelta(t, w.released(owner).Seconds(), (<-granted).Seconds(), 0.1, "the next waiter has the lock at once")

			// and the next tick runs elsewhere
			w.Until(2*time.Minute + time.Second)
			require.Equal(t, 1, other.stats("a").Running)
			drainAll(other)
		})
	}
}

func TestARunThatIsAbandonedKeepsItsLockAsLongAsItsSession(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given work under a lock that hears nothing
		j := locked(w.job("a", "@every 1m", 0), "db")
		j.Requirements[0].CleanupTimeout = 20 * time.Second
		var release func()
		j.Work, release = w.deaf()
		d := w.daemon("one", []jobs.Job{j}, draining(scheduler.Drain{Finish: 10 * time.Second, Cancel: 5 * time.Second, Release: time.Second}))
		w.Until(time.Minute + time.Second)

		// when its daemon is stopped
		d.stop()
		<-d.ended

		// then it says what it leaves, and no request gets the lock
		var left *scheduler.AbandonedError
		require.ErrorAs(t, d.err, &left)
		require.Equal(t, []string{"a"}, left.Jobs)
		require.Equal(t, time.Minute+37*time.Second, w.Now())
		other := w.rival("rival")
		require.False(t, other.tries("db"))
		require.Equal(t, []string{"goes on"}, w.outcomes("a"))
		require.ErrorAs(t, d.client.Close(t.Context()), new(*lock.BusyError))

		// until its session has ended, as it does with the process
		d.cut()
		w.Pass(expiry)
		require.True(t, other.tries("db"))
		release()
		w.Pass(time.Minute)
	})
}

// A preempted run waits for its lock again: that is no work to be finished.
func TestTheDrainEndsAtOnceWhatWaitsForItsLockAgain(t *testing.T) {
	for _, by := range []string{"preemption", "failure"} {
		variant(t, by, func(t *testing.T, w *world) {
			// given a run that has worked, and now waits for its lock again
			j := locked(w.job("a", "@every 10m", time.Minute), "db")
			want := ticks.Preempted
			j.OnPreempt.Then = jobs.PreemptedRequeue
			if by == "failure" {
				want = ticks.Failed
				j.Retry = jobs.Retry{Max: 3, Initial: 2 * time.Second}
				j.Work = w.failing(5)
			}
			d := w.daemon("one", []jobs.Job{j})
			other := w.rival("rival")
			w.Until(10*time.Minute + 1200*time.Millisecond)
			other.takes("db", 5, 5*time.Minute)
			w.Pass(10 * time.Second)
			require.Zero(t, w.goesOn("a"))

			// when the daemon is stopped
			began := w.Now()
			d.drain()

			// then that is over at once
			require.Less(t, w.Now()-began, time.Second)
			require.Equal(t, want, w.end("a", 10*time.Minute).Outcome)
			require.Len(t, w.worked("a"), 1)
		})
	}
}

func TestADrainWithoutZooKeeperEndsAndTheNextDaemonFindsWhatWasLeft(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		list := []jobs.Job{locked(w.job("a", "@every 1m", 20*time.Second), "db")}
		one, two := w.daemon("one", list, skewed(100*time.Millisecond)), w.daemon("two", list)
		w.Until(time.Minute + 10*time.Second)
		owner, other := w.owner("a", one, two)
		owner.cut()
		began := w.Now()
		owner.stop()
		<-owner.ended
		require.Less(t, w.Now()-began, time.Minute)
		w.Until(3*time.Minute - time.Second)
		require.Equal(t, []string{"interrupted", "ran"}, w.outcomes("a"))
		other.drain()
	})
}
