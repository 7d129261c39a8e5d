package scheduler

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

func TestARunThatHadToGoIsInterruptedWhateverItsWorkReturns(t *testing.T) {
	for name, err := range map[string]error{"what its context says": context.Canceled, "something else": errors.New("signal: killed")} {
		bubble(t, name, func(t *testing.T, c *cluster) {
			// given runs that go when they have to
			j := overlapping(job("a", "@every 1m", 0), jobs.OverlapCancelOther, 0)
			j.Work = jobs.Func(func(ctx context.Context, _ jobs.Run) error {
				<-ctx.Done()
				return err
			})

			// when each is replaced by the next one, and the last one is drained
			d := start(t, c.daemon("one"), []jobs.Job{j})
			time.Sleep(5*time.Minute + time.Second)
			d.drain()

			// then
			requireOnce(t, c, "a", minute(1), minute(5), time.Minute, "interrupted")
			require.Zero(t, d.stats("a").Failed)
		})
	}
}

func TestWorkThatEndsItsGoroutineHasFailed(t *testing.T) {
	for _, change := range []func(jobs.Job) jobs.Job{locked, func(j jobs.Job) jobs.Job { return j }} {
		inBubble(t, func(t *testing.T, c *cluster) {
			runs := 0
			j := change(job("a", "@every 1m", 0))
			j.Work = jobs.Func(func(context.Context, jobs.Run) error {
				if runs++; runs == 1 {
					runtime.Goexit()
				}
				return nil
			})
			d := start(t, c.daemon("one"), []jobs.Job{j})
			time.Sleep(3*time.Minute + time.Second)
			d.drain()
			require.Equal(t, []string{"failed", "ran", "ran"}, outcomesOf(t, c, "a", minute(1), minute(3), time.Minute))
			require.Equal(t, errGoexit.Error(), c.of("a").ends[0].Reason)
		})
	}
}

// preempting is a guard that preempts what works for a second.
type preempting struct{ guard }

func (*preempting) DoAll(ctx context.Context, _ []lockguard.Requirement, work func(context.Context) error, _ ...lockguard.Hook) error {
	preempted := &lockguard.PreemptedError{Scope: "db", By: "somebody"}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Second, preempted)
	defer cancel()
	err := work(ctx)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

func TestAPreemptionIsNoAttemptWhateverTheWorkReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		// given work that does not tell why it has returned
		runs := 0
		j := locked(job("a", "@every 1m", 0))
		j.OnPreempt.Then = jobs.PreemptedRequeue
		j.Work = jobs.Func(func(ctx context.Context, _ jobs.Run) error {
			if runs++; runs < 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})

		// when
		d := start(t, c.daemon("one"), []jobs.Job{j}, func(cfg *Config) { cfg.Guard = &preempting{} })
		time.Sleep(70 * time.Second)
		d.drain()

		// then
		end := c.of("a").ends[0]
		require.Equal(t, ticks.Ran, end.Outcome)
		require.Equal(t, 1, end.Attempts)
		require.Equal(t, 2, end.Preemptions)
		require.Zero(t, d.stats("a").Retries)
	})
}
