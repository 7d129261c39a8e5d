package robfigcron_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/adapters/internal/guardtest"
	"github.com/lockkeeper/lockkeeper/adapters/robfigcron"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a cron until the test ends.
func start(t *testing.T, spec string, job cron.Job) {
	t.Helper()
	c := cron.New(cron.WithLocation(time.UTC))
	_, err := c.AddJob(spec, job)
	require.NoError(t, err)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// hold takes the lock, and returns what gives it back.
func hold(t *testing.T, guard *lockguard.Guard, r lockguard.Requirement) (release func()) {
	t.Helper()
	held, err := guard.Acquire(t.Context(), r)
	require.NoError(t, err)
	return func() { require.NoError(t, held.Release(context.Background())) }
}

func TestTwoDaemonsNeverRunAJobAtTheSameTime(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		requirement := lockguard.Requirement{Scope: "shop/report"}
		var running atomic.Int32
		var mu sync.Mutex
		var tokens []lockguard.Token
		job := robfigcron.Job(func(ctx context.Context) error {
			held, ok := lockguard.FromContext(ctx)
			require.True(t, ok)
			require.EqualValues(t, 1, running.Add(1))
			time.Sleep(30 * time.Second)
			running.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, held.Token())
			return nil
		})

		// when
		for _, name := range []string{"one", "two"} {
			start(t, "* * * * *", robfigcron.JobWrapper(guardtest.New(t, zk, name), requirement)(job))
		}
		time.Sleep(10*time.Minute + 45*time.Second)

		// then
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, tokens, 10)
		require.IsIncreasing(t, tokens)
	})
}

func TestJobThatDoesNotGetItsLockIsSkipped(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		release := hold(t, guardtest.New(t, zk, "other"), lockguard.Requirement{Scope: "s"})
		var log bytes.Buffer
		var skips guardtest.Errors
		var runs atomic.Int32

		// when
		start(t, "* * * * *", robfigcron.JobWrapper(guardtest.New(t, zk, "cron"), lockguard.Requirement{Scope: "s"},
			robfigcron.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			robfigcron.OnSkipped(skips.Add),
		)(cron.FuncJob(func() { runs.Add(1) })))
		time.Sleep(150 * time.Second)
		release()
		time.Sleep(time.Minute)

		// then
		require.EqualValues(t, 1, runs.Load())
		require.Len(t, skips.All(), 2)
		require.ErrorAs(t, skips.All()[0], new(*lock.NotAcquiredError))
		require.Contains(t, log.String(), "a tick is skipped")
	})
}

func TestPreemptionReachesTheContextOfAJobAndItsHooksCleanUp(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		var causes, failed guardtest.Errors
		var cleaned atomic.Bool
		start(t, "* * * * *", robfigcron.JobWrapper(guardtest.New(t, zk, "cron"),
			lockguard.Requirement{Scope: "s", Terms: priority.Terms{CleanupTimeout: time.Minute}},
			robfigcron.WithHooks(func(context.Context) error { cleaned.Store(true); return nil }),
			robfigcron.OnFailed(failed.Add),
		)(robfigcron.Job(func(ctx context.Context) error {
			<-ctx.Done()
			causes.Add(context.Cause(ctx))
			return nil
		})))
		time.Sleep(61 * time.Second)

		// when
		release := hold(t, guardtest.New(t, zk, "operator"), lockguard.Requirement{Scope: "s", Terms: priority.Terms{Priority: 9}})
		defer release()
		synctest.Wait()

		// then
		require.Len(t, causes.All(), 1)
		require.ErrorAs(t, causes.All()[0], new(*lockguard.PreemptedError))
		require.True(t, cleaned.Load())
		require.Len(t, failed.All(), 1)
		require.ErrorIs(t, failed.All()[0], causes.All()[0])
	})
}

func TestLossReachesTheContextOfAJobAndIsToldForAPlainOne(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		guard := guardtest.New(t, zk, "cron")
		var withContext, plain guardtest.Errors
		run := func(scope string, failed *guardtest.Errors, job cron.Job) {
			start(t, "0 * * * *", robfigcron.JobWrapper(guard, lockguard.Requirement{Scope: scope}, robfigcron.OnFailed(failed.Add))(job))
		}
		var ended atomic.Int64
		run("context", &withContext, robfigcron.Job(func(ctx context.Context) error {
			began := time.Now()
			<-ctx.Done()
			ended.Store(int64(time.Since(began)))
			return nil
		}))
		run("plain", &plain, cron.FuncJob(func() { time.Sleep(10 * time.Minute) }))
		time.Sleep(time.Hour)
		time.Sleep(time.Second)

		// when
		zk.Partition("cron")
		time.Sleep(20 * time.Minute)
		zk.Heal("cron")
		time.Sleep(time.Minute)

		// then
		for _, failed := range []*guardtest.Errors{&withContext, &plain} {
			require.Len(t, failed.All(), 1)
			require.ErrorAs(t, failed.All()[0], new(*lockguard.LostError))
		}
		require.Less(t, time.Duration(ended.Load()), time.Minute)
	})
}

func TestPanicEndsTheRunAndReleasesTheLock(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		var log bytes.Buffer
		var failed guardtest.Errors

		// when
		start(t, "* * * * *", robfigcron.JobWrapper(guardtest.New(t, zk, "cron"), lockguard.Requirement{Scope: "s"},
			robfigcron.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			robfigcron.OnFailed(failed.Add),
		)(cron.FuncJob(func() { panic("out of paper") })))
		time.Sleep(150 * time.Second)

		// then
		require.Len(t, failed.All(), 2)
		require.ErrorAs(t, failed.All()[0], new(*lockguard.PanicError))
		require.Contains(t, log.String(), "wrapper_test.go", "the stack")
	})
}

func TestNoMoreThanOneTickOfAJobWaits(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		release := hold(t, guardtest.New(t, zk, "other"), lockguard.Requirement{Scope: "s", Terms: priority.Terms{LeaseTimeout: time.Hour}})
		var runs atomic.Int32
		var skips guardtest.Errors

		// when
		start(t, "* * * * *", robfigcron.JobWrapper(guardtest.New(t, zk, "cron"),
			lockguard.Requirement{Scope: "s", Terms: priority.Terms{AcquireTimeout: new(time.Hour)}},
			robfigcron.OnSkipped(skips.Add),
		)(cron.FuncJob(func() { runs.Add(1) })))
		time.Sleep(10*time.Minute + time.Second)
		release()
		time.Sleep(90 * time.Second)

		// then
		require.EqualValues(t, 2, runs.Load(), "the one that waited, and the next")
		require.Len(t, skips.All(), 9)
		for _, err := range skips.All() {
			require.ErrorIs(t, err, robfigcron.ErrStillWaiting)
		}
	})
}

func TestJobIsToldToGoWhenTheGivenContextEnds(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		deploy := errors.New("a new version is here")
		ctx, stop := context.WithCancelCause(t.Context())
		var causes guardtest.Errors
		start(t, "* * * * *", robfigcron.JobWrapper(guardtest.New(t, zk, "cron"), lockguard.Requirement{Scope: "s"}, robfigcron.WithContext(ctx))(
			robfigcron.Job(func(ctx context.Context) error { <-ctx.Done(); causes.Add(context.Cause(ctx)); return nil })))
		time.Sleep(61 * time.Second)

		// when
		stop(deploy)
		synctest.Wait()

		// then
		require.Len(t, causes.All(), 1)
		require.ErrorAs(t, causes.All()[0], new(*lockguard.ShutdownError))
		require.ErrorIs(t, causes.All()[0], deploy)
	})
}

func TestJobOutsideOfAWrapperDoesNotRun(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		runs := 0
		job := robfigcron.Job(func(context.Context) error { runs++; return nil })
		wrap := robfigcron.JobWrapper(guardtest.New(t, zk, "cron"), lockguard.Requirement{Scope: "s"})

		// when
		job.Run()
		cron.NewChain(wrap, cron.SkipIfStillRunning(cron.DiscardLogger)).Then(job).Run()

		// then
		require.Zero(t, runs)

		// when
		cron.NewChain(cron.SkipIfStillRunning(cron.DiscardLogger), wrap).Then(job).Run()

		// then
		require.Equal(t, 1, runs)
	})
}

func TestRequirementThatCannotWorkIsToldAtEveryTick(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		var log bytes.Buffer
		job := robfigcron.JobWrapper(guardtest.New(t, zk, "cron"), lockguard.Requirement{Scope: "a//b"},
			robfigcron.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))(cron.FuncJob(func() { t.Error("it ran") }))

		// when
		job.Run()

		// then
		require.Contains(t, log.String(), "level=ERROR")
	})
}
