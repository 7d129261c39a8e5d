package actor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/lockkeeper/lockkeeper/adapters/actor"
	"github.com/lockkeeper/lockkeeper/adapters/internal/guardtest"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var requirement = lockguard.Requirement{Scope: "s", Terms: priority.Terms{CleanupTimeout: time.Minute, LeaseTimeout: time.Hour}}

// A term is one call of serve.
type term struct {
	token lockguard.Token
	cause error
}

// terms is a service that tells of each of its terms when it is over.
func terms(t *testing.T) (serve func(context.Context) error, over <-chan term) {
	t.Helper()
	ended := make(chan term, 10)
	return func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		<-ctx.Done()
		ended <- term{hold.Token(), context.Cause(ctx)}
		return nil
	}, ended
}

// group runs actors as oklog/run does: the first to end interrupts all others.
type group struct {
	execute   []func() error
	interrupt []func(error)
}

func (g *group) add(execute func() error, interrupt func(error)) {
	g.execute, g.interrupt = append(g.execute, execute), append(g.interrupt, interrupt)
}

func (g *group) run() error {
	errs := make(chan error, len(g.execute))
	for _, execute := range g.execute {
		go func() { errs <- execute() }()
	}
	first := <-errs
	for _, interrupt := range g.interrupt {
		interrupt(first)
	}
	for range len(g.execute) - 1 {
		<-errs
	}
	return first
}

func TestGroupStopsTheServiceAndTheNextOneServes(t *testing.T) {
	for name, why := range map[string]error{"with an error": errors.New("out of memory"), "without one": nil} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
				// given
				serve, over := terms(t)
				var g group
				g.add(actor.New(guardtest.New(t, zk, "one"), requirement, serve, actor.Again()))
				g.add(func() error { time.Sleep(time.Minute); return why }, func(error) {})

				// when
				err := g.run()

				// then
				require.Equal(t, why, err)
				ended := <-over
				require.ErrorAs(t, ended.cause, new(*lockguard.ShutdownError))
				if why != nil {
					require.ErrorIs(t, ended.cause, why)
				}
				require.NoError(t, guardtest.New(t, zk, "two").Do(t.Context(), requirement, func(context.Context) error { return nil }))
			})
		})
	}
}

func TestServiceServesAgainAfterPreemptionAndLoss(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		serve, over := terms(t)
		ctx, stop := context.WithCancel(t.Context())
		g, ctx := errgroup.WithContext(ctx)
		guard := guardtest.New(t, zk, "one")
		g.Go(func() error { return actor.Run(ctx, guard, requirement, serve, actor.Again()) })
		time.Sleep(time.Second)

		// when
		guardtest.Preempt(t, guardtest.New(t, zk, "operator"))
		preempted := <-over
		time.Sleep(time.Minute)
		zk.Partition("one")
		lost := <-over
		zk.Heal("one")
		time.Sleep(10 * time.Minute)
		stop()
		stopped := <-over

		// then
		require.ErrorAs(t, preempted.cause, new(*lockguard.PreemptedError))
		require.ErrorAs(t, lost.cause, new(*lockguard.LostError))
		require.ErrorAs(t, stopped.cause, new(*lockguard.ShutdownError))
		require.IsIncreasing(t, []lockguard.Token{preempted.token, lost.token, stopped.token})
		require.ErrorIs(t, g.Wait(), context.Canceled)
	})
}

func TestServiceThatShallServeOnceEndsWithItsHold(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		serve, over := terms(t)
		cleaned := false
		done := make(chan error, 1)
		guard := guardtest.New(t, zk, "one")
		go func() {
			done <- actor.Run(t.Context(), guard, requirement, serve, actor.WithHooks(func(context.Context) error { cleaned = true; return nil }))
		}()
		time.Sleep(time.Second)

		// when
		guardtest.Preempt(t, guardtest.New(t, zk, "operator"))

		// then
		require.ErrorAs(t, <-done, new(*lockguard.PreemptedError))
		require.Len(t, over, 1)
		require.True(t, cleaned)
	})
}

func TestServiceThatFailsOrFinishesIsNotCalledAgain(t *testing.T) {
	broken := errors.New("port in use")
	for name, test := range map[string]struct {
		serve func(context.Context) error
		check func(t *testing.T, err error)
	}{
		"finishes": {func(context.Context) error { return nil }, func(t *testing.T, err error) { require.NoError(t, err) }},
		"fails":    {func(context.Context) error { return broken }, func(t *testing.T, err error) { require.ErrorIs(t, err, broken) }},
		"panics": {func(context.Context) error { panic(broken) }, func(t *testing.T, err error) {
			require.ErrorAs(t, err, new(*lockguard.PanicError))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0

				err := actor.Run(t.Context(), guardtest.New(t, zktest.RunT(t, zktest.Pipe()), "one"), requirement, func(ctx context.Context) error {
					calls++
					return test.serve(ctx)
				}, actor.Again())

				test.check(t, err)
				require.Equal(t, 1, calls)
			})
		})
	}
}

func TestServiceKeepsItsLockFromItsEqualsForAsLongAsItLives(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		serving := make(chan string, 10)
		for _, name := range []string{"one", "two"} {
			guard := guardtest.New(t, zk, name)
			group.Go(func() {
				_ = actor.Run(ctx, guard, lockguard.Requirement{Scope: "s"}, func(ctx context.Context) error {
					serving <- name
					<-ctx.Done()
					return nil
				}, actor.Again())
			})
			time.Sleep(time.Second)
		}

		// when
		time.Sleep(time.Hour)

		// then
		require.Len(t, serving, 1)
		require.Equal(t, "one", <-serving)
		stop()
		group.Wait()
	})
}

func TestLockThatIsNotToBeHad(t *testing.T) {
	try := requirement
	try.AcquireTimeout = new(time.Minute)
	for name, test := range map[string]struct {
		requirement lockguard.Requirement
		options     []actor.Option
		check       func(t *testing.T, err error)
	}{
		"ends an actor that serves once": {try, nil, func(t *testing.T, err error) {
			require.ErrorAs(t, err, new(*lock.NotAcquiredError))
		}},
		"is asked for again": {try, []actor.Option{actor.Again()}, func(t *testing.T, err error) { require.NoError(t, err) }},
		"for no good reason": {lockguard.Requirement{Scope: "a//b"}, []actor.Option{actor.Again()}, func(t *testing.T, err error) {
			require.ErrorAs(t, err, new(*lockguard.RequestError))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
				// given
				hold, err := guardtest.New(t, zk, "other").Acquire(t.Context(), requirement)
				require.NoError(t, err)
				released := make(chan struct{})
				time.AfterFunc(30*time.Minute, func() {
					defer close(released)
					_ = hold.Release(context.Background())
				})

				// when
				err = actor.Run(t.Context(), guardtest.New(t, zk, "one"), test.requirement, func(context.Context) error { return nil }, test.options...)

				// then
				test.check(t, err)
				<-released
			})
		})
	}
}

func TestActorThatIsInterruptedBeforeItBeginsDoesNotServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		execute, interrupt := actor.New(guardtest.New(t, zktest.RunT(t, zktest.Pipe()), "one"), requirement,
			func(context.Context) error { t.Error("it served"); return nil }, actor.Again())

		// when
		interrupt(nil)

		// then
		require.Error(t, execute())
	})
}
