package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// script is work whose attempts return these errors, one after the other, and
// then nil.
func script(began *[]time.Time, ends ...error) jobs.Func {
	return func(context.Context, jobs.Run) error {
		*began = append(*began, time.Now())
		if len(*began) <= len(ends) {
			return ends[len(*began)-1]
		}
		return nil
	}
}

func TestARunThatFailsIsTriedAgainWithPauses(t *testing.T) {
	boom := errors.New("boom")
	preempted := &lockguard.PreemptedError{Scope: "db", By: "somebody"}
	cases := map[string]struct {
		retry    jobs.Retry
		then     jobs.PreemptedThen
		ends     []error
		want     string
		tries    int
		attempts int
	}{
		"not at all":                     {jobs.Retry{}, "", []error{boom}, "failed", 1, 1},
		"until it succeeds":              {jobs.Retry{Max: 3}, "", []error{boom, boom}, "ran", 3, 3},
		"as often as it may":             {jobs.Retry{Max: 2}, "", []error{boom, boom, boom, boom}, "failed", 3, 3},
		"not when it was preempted":      {jobs.Retry{Max: 3}, "", []error{boom, preempted}, "preempted", 2, 1},
		"not when its lock was lost":     {jobs.Retry{Max: 3}, "", []error{&lockguard.LostError{}}, "lost", 1, 1},
		"a preemption is no attempt":     {jobs.Retry{Max: 1}, jobs.PreemptedRequeue, []error{preempted, boom, preempted}, "ran", 4, 2},
		"nor is the end of a lease":      {jobs.Retry{}, jobs.PreemptedRequeue, []error{&lockguard.LeaseExpiredError{Scope: "db"}}, "ran", 2, 1},
		"preempted for good without it":  {jobs.Retry{Max: 1}, jobs.PreemptedSkip, []error{preempted}, "preempted", 1, 0},
		"not when an override took it":   {jobs.Retry{Max: 3}, "", []error{&lockguard.OverriddenError{Scope: "db"}}, "preempted", 1, 0},
		"what takes too long, as well":   {jobs.Retry{Max: 1}, "", []error{&jobs.TimeoutError{}}, "ran", 2, 2},
		"what panics is tried again too": {jobs.Retry{Max: 1}, "", []error{&lockguard.PanicError{Value: "ouch"}}, "ran", 2, 2},
	}
	for name, tc := range cases {
		bubble(t, name, func(t *testing.T, c *cluster) {
			var began []time.Time
			j := locked(job("a", "0 1 * * *", 0))
			j.Retry, j.OnPreempt.Then = tc.retry, tc.then
			j.Work = script(&began, tc.ends...)
			d := start(t, c.daemon("one"), []jobs.Job{j})
			time.Sleep(time.Hour + 10*time.Minute)
			d.drain()
			requireOnce(t, c, "a", epoch.Add(time.Hour), epoch.Add(time.Hour), time.Hour, tc.want)
			require.Len(t, began, tc.tries)
			require.Equal(t, tc.attempts, c.of("a").ends[0].Attempts)
			require.EqualValues(t, max(0, tc.attempts-1), d.stats("a").Retries)
		})
	}
}

func TestPausesBetweenAttemptsGrowAndEndWithTheDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		var began []time.Time
		boom := errors.New("boom")
		j := job("a", "0 1 * * *", 0)
		j.Retry = jobs.Retry{Max: 20, Initial: time.Minute, MaxInterval: 4 * time.Minute}
		j.Work = script(&began, boom, boom, boom, boom, boom, boom, boom, boom, boom, boom)
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(time.Hour + 18*time.Minute)
		stopped := time.Now()
		d.drain()
		require.Equal(t, stopped, time.Now())
		requireOnce(t, c, "a", epoch.Add(time.Hour), epoch.Add(time.Hour), time.Hour, "failed")
		for i, atLeast := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 2 * time.Minute} {
			pause := began[i+1].Sub(began[i])
			require.GreaterOrEqual(t, pause, atLeast)
			require.LessOrEqual(t, pause, 6*time.Minute)
		}
	})
}

func TestAPauseIsAsLongAsTheServerAsksFor(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		var began []time.Time
		busy := func(d time.Duration) error { return &jobs.StatusError{Status: 503, RetryAfter: d} }
		j := job("a", "0 1 * * *", 0)
		j.Retry = jobs.Retry{Max: 3, Initial: time.Second, MaxInterval: 2 * time.Minute}
		j.Work = script(&began, busy(time.Minute), busy(time.Hour), busy(0))
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(time.Hour + 10*time.Minute)
		d.drain()
		require.Len(t, began, 4)
		require.Equal(t, time.Minute, began[1].Sub(began[0]))
		require.Equal(t, 2*time.Minute, began[2].Sub(began[1]))
		require.Less(t, began[3].Sub(began[2]), 10*time.Second)
	})
}

func TestWhatOverridesDoDoesNotCountAsAPreemptionTooMany(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		var began []time.Time
		overridden := &lockguard.OverriddenError{Scope: "db", Override: lock.Mark{ID: "INC-7", By: "ana"}}
		preempted := &lockguard.PreemptedError{Scope: "db", By: "somebody"}
		j := locked(job("a", "0 1 * * *", 0))
		j.OnPreempt = jobs.OnPreempt{Then: jobs.PreemptedRequeue, MaxPreemptions: 1}
		j.Work = script(&began, overridden, overridden, preempted)
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(time.Hour + time.Minute)
		d.drain()
		require.Len(t, d.guard.asked, 4)
		require.Zero(t, d.guard.asked[2].MinRuntime, "two of an operator do not count")
		require.NotZero(t, d.guard.asked[3].MinRuntime)
		require.Equal(t, 3, c.of("a").ends[0].Preemptions, "but they are counted")
		require.EqualValues(t, 3, d.stats("a").Preemptions)
		require.Equal(t, "ran", c.outcomes("a")[time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)][0])
	})
}

func TestARunThatCannotBeTriedAgainEndsAsItsLastAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		j := locked(job("a", "@every 1m", 0))
		j.OnPreempt.Then = jobs.PreemptedRequeue
		j.Work = jobs.Func(func(context.Context, jobs.Run) error {
			time.Sleep(10 * time.Second)
			return &lockguard.PreemptedError{Scope: "db", By: "somebody"}
		})
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(65 * time.Second)
		d.guard.set(time.Hour, nil) // the preemptor keeps the lock
		time.Sleep(57 * time.Second)
		d.drain()
		require.Equal(t, "preempted", c.outcomes("a")[minute(1)][0])
		require.Contains(t, c.of("a").ends[0].Reason, "somebody")
	})
}

func TestALockIsHeldAtLeastSoLong(t *testing.T) {
	cases := map[string]struct {
		takes time.Duration
		drain bool
		want  time.Duration
	}{
		"the work is short":   {time.Second, false, 20 * time.Second},
		"the work is long":    {25 * time.Second, false, 25 * time.Second},
		"the daemon drains":   {time.Second, true, 5 * time.Second},
		"the work has failed": {-1, false, 20 * time.Second},
	}
	for name, tc := range cases {
		bubble(t, name, func(t *testing.T, c *cluster) {
			j := locked(job("a", "@every 1m", tc.takes))
			j.HoldAtLeast = 20 * time.Second
			want := "ran"
			if tc.takes < 0 {
				want = "failed"
				j.Work = jobs.Func(func(context.Context, jobs.Run) error { return errors.New("boom") })
			}
			d := start(t, c.daemon("one"), []jobs.Job{j})
			time.Sleep(time.Minute + 5*time.Second)
			if tc.drain {
				d.drain()
			}
			time.Sleep(tc.want - 5*time.Second - time.Millisecond)
			if !tc.drain {
				require.Equal(t, 1, d.stats("a").Running)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			require.Zero(t, d.stats("a").Running)
			requireOnce(t, c, "a", minute(1), minute(1), time.Minute, want)
			if tc.takes > 0 {
				require.Equal(t, tc.takes, c.of("a").ends[0].Took)
			}
		})
	}
}

func TestWorkThatDoesNotReturnIsToldWithItsStack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		j := locked(job("a", "@every 10m", 0))
		j.Timeout, j.StuckAfter = 30*time.Second, 20*time.Second
		j.Work = jobs.Func(func(context.Context, jobs.Run) error {
			deafWork(release)
			return nil
		})
		d := start(t, c.daemon("one"), []jobs.Job{j})
		time.Sleep(10*time.Minute + 49*time.Second)
		require.Zero(t, d.stats("a").Stuck)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, d.stats("a").Stuck)
		require.Equal(t, 1, d.stats("a").StuckNow)
		require.Len(t, d.guard.stuck, 1)
		told := d.guard.stuck[0]
		require.Equal(t, "db", told.Scope)
		require.Equal(t, minute(10), told.Instant)
		require.ErrorAs(t, told.Cause, new(*jobs.TimeoutError))
		require.Contains(t, told.Stack, "deafWork")
		require.Equal(t, 1, d.log.lines("work goes on although its context has ended", "level=ERROR", "deafWork"))
		close(release)
		synctest.Wait()
		require.Zero(t, d.stats("a").StuckNow)
		requireOnce(t, c, "a", minute(10), minute(10), time.Minute, "failed")
		d.drain()
	})
}

//go:noinline
func deafWork(release chan struct{}) { <-release }

func TestSecondSignalsHurryTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a run that ends when it is cancelled, and one that does not
		release := make(chan struct{})
		deaf := job("deaf", "@every 10s", 0)
		deaf.Work = jobs.Func(func(context.Context, jobs.Run) error { deafWork(release); return nil })
		c := newCluster()
		d := start(t, c.daemon("one"), []jobs.Job{job("good", "@every 10s", time.Hour), deaf})
		d.Hurry() // has no meaning yet
		time.Sleep(11 * time.Second)
		began := time.Now()
		d.abandons("deaf")
		d.stop()
		time.Sleep(time.Second)
		require.Empty(t, c.outcomes("good"))

		// when it is hurried, then the first one is cancelled at once
		d.Hurry()
		time.Sleep(time.Second)
		requireOnce(t, c, "good", sec(10), sec(10), time.Second, "interrupted")

		// and then the second one is abandoned
		d.Hurry()
		<-d.ended
		require.Equal(t, 2*time.Second, time.Since(began))
		close(release)
	})
}
