package gocron_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	lockkeeper "github.com/lockkeeper/lockkeeper/adapters/gocron"
	"github.com/lockkeeper/lockkeeper/adapters/internal/guardtest"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a scheduler with one job until the test ends; gocron's Shutdown
// spins, so nothing must run then that waits for the clock of the bubble.
func start(t *testing.T, every time.Duration, task gocron.Task, scheduler []gocron.SchedulerOption, job ...gocron.JobOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(scheduler...)
	require.NoError(t, err)
	_, err = s.NewJob(gocron.DurationJob(every), task, append(job, gocron.WithName("report"))...)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// into collects the errors that gocron's listeners get.
func into(errs *guardtest.Errors) func(uuid.UUID, string, error) {
	return func(_ uuid.UUID, _ string, err error) { errs.Add(err) }
}

func scope(string) lockguard.Requirement { return lockguard.Requirement{Scope: "s"} }

func TestTasksOfTwoSchedulersNeverRunAtTheSameTime(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		var running, runs atomic.Int32
		var refused guardtest.Errors

		// when
		for _, name := range []string{"one", "two"} {
			start(t, time.Minute, gocron.NewTask(lockkeeper.Task(guardtest.New(t, zk, name), lockguard.Requirement{Scope: "s"}, func(context.Context) error {
				require.EqualValues(t, 1, running.Add(1))
				time.Sleep(10 * time.Second)
				running.Add(-1)
				runs.Add(1)
				return nil
			})), nil, gocron.WithEventListeners(gocron.AfterJobRunsWithError(into(&refused))))
		}
		time.Sleep(10*time.Minute + 30*time.Second)

		// then
		require.EqualValues(t, 10, runs.Load())
		require.Len(t, refused.All(), 10)
		require.ErrorAs(t, refused.All()[0], new(*lock.NotAcquiredError))
	})
}

func TestPreemptionLossAndShutdownReachATask(t *testing.T) {
	for name, test := range map[string]struct {
		interrupt func(t *testing.T, zk *zktest.Server, s gocron.Scheduler)
		cause     any
		cleaned   bool
	}{
		"preemption": {func(t *testing.T, zk *zktest.Server, _ gocron.Scheduler) {
			guardtest.Preempt(t, guardtest.New(t, zk, "operator"))
		}, new(*lockguard.PreemptedError), true},
		"loss":     {func(_ *testing.T, zk *zktest.Server, _ gocron.Scheduler) { zk.Partition("cron") }, new(*lockguard.LostError), false},
		"shutdown": {func(_ *testing.T, _ *zktest.Server, s gocron.Scheduler) { _ = s.Shutdown() }, new(*lockguard.ShutdownError), true},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
				// given
				var causes guardtest.Errors
				var cleaned atomic.Bool
				s := start(t, time.Minute, gocron.NewTask(lockkeeper.Task(guardtest.New(t, zk, "cron"),
					lockguard.Requirement{Scope: "s", Terms: priority.Terms{CleanupTimeout: time.Minute}}, func(ctx context.Context) error {
						<-ctx.Done()
						causes.Add(context.Cause(ctx))
						return nil
					}, func(ctx context.Context) error { cleaned.Store(ctx.Err() == nil); return nil })), nil, gocron.WithLimitedRuns(1))
				time.Sleep(61 * time.Second)

				// when
				test.interrupt(t, zk, s)
				time.Sleep(time.Minute)
				zk.Heal("cron")
				time.Sleep(time.Minute)

				// then
				require.Len(t, causes.All(), 1)
				require.ErrorAs(t, causes.All()[0], test.cause)
				require.Equal(t, test.cleaned, cleaned.Load())
			})
		})
	}
}

func TestPanicOfATaskIsTheErrorOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		var failed guardtest.Errors
		guard := guardtest.New(t, zktest.RunT(t, zktest.Pipe()), "cron")

		// when
		start(t, time.Minute, gocron.NewTask(lockkeeper.Task(guard, lockguard.Requirement{Scope: "s"}, func(context.Context) error { panic("out of paper") })),
			nil, gocron.WithEventListeners(gocron.AfterJobRunsWithError(into(&failed))))
		time.Sleep(150 * time.Second)

		// then
		require.Len(t, failed.All(), 2)
		require.ErrorAs(t, failed.All()[0], new(*lockguard.PanicError))
	})
}

func TestLockerSkipsAJobWhoseLockIsHeldAndKeepsItsSchedule(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		hold, err := guardtest.New(t, zk, "other").Acquire(t.Context(), lockguard.Requirement{Scope: "jobs/report", Terms: priority.Terms{LeaseTimeout: time.Hour}})
		require.NoError(t, err)
		locker, err := lockkeeper.NewLocker(guardtest.New(t, zk, "cron"), func(key string) lockguard.Requirement {
			return lockguard.Requirement{Scope: "jobs/" + key}
		})
		require.NoError(t, err)
		var runs atomic.Int32
		var refused guardtest.Errors

		// when
		start(t, time.Minute, gocron.NewTask(func() { runs.Add(1) }), []gocron.SchedulerOption{gocron.WithDistributedLocker(locker)},
			gocron.WithEventListeners(gocron.AfterLockError(into(&refused))))
		time.Sleep(10*time.Minute + time.Second)
		require.NoError(t, hold.Release(t.Context()))
		time.Sleep(5 * time.Minute)

		// then
		require.Len(t, refused.All(), 10)
		require.ErrorAs(t, refused.All()[0], new(*lock.NotAcquiredError))
		require.EqualValues(t, 5, runs.Load())
	})
}

func TestUnlockWithAContextThatHasEndedReleases(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		locker, err := lockkeeper.NewLocker(guardtest.New(t, zk, "cron"), scope)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := locker.Lock(ctx, "report")
		require.NoError(t, err)
		cancel()

		// when
		err = lock.Unlock(ctx)

		// then
		require.NoError(t, err)
		require.NoError(t, guardtest.New(t, zk, "other").Do(t.Context(), lockguard.Requirement{Scope: "s", Terms: priority.Terms{AcquireTimeout: new(time.Duration)}},
			func(context.Context) error { return nil }))
	})
}

func TestShutdownKeepsTheLockUntilAPlainTaskHasReturned(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		locker, err := lockkeeper.NewLocker(guardtest.New(t, zk, "cron"), scope)
		require.NoError(t, err)
		finish, running, stopping := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s := start(t, time.Minute, gocron.NewTask(func(ctx context.Context) { close(running); <-ctx.Done(); close(stopping); <-finish }), []gocron.SchedulerOption{gocron.WithDistributedLocker(locker)},
			gocron.WithLimitedRuns(1))
		<-running
		other := guardtest.New(t, zk, "other")
		try := func() error {
			return other.Do(t.Context(), lockguard.Requirement{Scope: "s", Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}, func(context.Context) error { return nil })
		}
		require.Error(t, try())

		// when
		shutdown := make(chan error, 1)
		go func() { shutdown <- s.Shutdown() }()
		<-stopping
		var tries []error // who gave the lock back now would take a moment for it
		for range 9 {
			tries = append(tries, try())
		}
		close(finish)
		<-shutdown
		time.Sleep(time.Second)

		// then
		require.NotContains(t, tries, nil)
		require.NoError(t, try())
	})
}

func TestOneInstanceLeadsAndAnotherOneWhenItIsGone(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		runs := map[string]*atomic.Int32{"one": {}, "two": {}}
		electors := map[string]*lockkeeper.Elector{}
		for _, name := range []string{"one", "two"} {
			elector, err := lockkeeper.NewElector(guardtest.New(t, zk, name), lockguard.Requirement{Scope: "leader"}, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			t.Cleanup(elector.Close)
			electors[name] = elector
			start(t, time.Minute, gocron.NewTask(func() { runs[name].Add(1) }), []gocron.SchedulerOption{gocron.WithDistributedElector(elector)})
			time.Sleep(time.Second)
		}
		require.NoError(t, electors["one"].IsLeader(t.Context()))
		require.ErrorIs(t, electors["two"].IsLeader(t.Context()), lockkeeper.ErrNotLeader)
		time.Sleep(10*time.Minute + time.Second)
		require.EqualValues(t, 10, runs["one"].Load())
		require.Zero(t, runs["two"].Load())

		// when
		zk.Partition("one")
		time.Sleep(time.Minute)

		// then
		require.ErrorIs(t, electors["one"].IsLeader(t.Context()), lockkeeper.ErrNotLeader)
		require.NoError(t, electors["two"].IsLeader(t.Context()))

		// when
		zk.Heal("one")
		time.Sleep(time.Minute)
		electors["two"].Close()
		time.Sleep(time.Second)

		// then
		require.NoError(t, electors["one"].IsLeader(t.Context()))
		require.ErrorIs(t, electors["two"].IsLeader(t.Context()), lockkeeper.ErrNotLeader)
	})
}

func TestWhatCanNeverWorkIsRefusedAtOnce(t *testing.T) {
	_, err := lockkeeper.NewLocker(nil, scope)
	require.ErrorContains(t, err, "must not be nil")
	_, err = lockkeeper.NewElector(nil, lockguard.Requirement{Scope: "s"}, nil)
	require.ErrorContains(t, err, "is nil")
	_, err = lockkeeper.NewElector(&lockguard.Guard{}, lockguard.Requirement{Scope: "a//b"}, nil)
	require.ErrorAs(t, err, new(*lockguard.RequestError))
}
