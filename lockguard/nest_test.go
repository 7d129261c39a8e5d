package lockguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestSameScopeInTheContextOfAHoldIsTheSameLock(t *testing.T) {
	s := newSetup(t)
	outer := acquire(t.Context(), t, s, required())
	inner := acquire(outer.Context(), t, s, Requirement{Scope: scope})

	require.Len(t, s.locker.grants, 1)
	require.Equal(t, outer.Token(), inner.Token())
	got, _ := FromContext(inner.Context())
	require.Same(t, inner, got)
	require.Equal(t, outer.Info(), inner.Info(), "the outer requirement rules")

	require.NoError(t, inner.Release(t.Context()))
	require.Zero(t, s.locker.last().released())
	require.NoError(t, outer.Context().Err())
	require.ErrorIs(t, context.Cause(inner.Context()), ErrReleased)
	require.NoError(t, outer.Release(t.Context()))
	require.Equal(t, 1, s.locker.last().released())
	require.Equal(t, []string{"Waiting", "Acquired", "Released"}, s.events.names())
}

func TestContextOfAReleasedNestedHoldIsNoWayAroundAPreemption(t *testing.T) {
	s := newSetup(t)
	outer := acquire(t.Context(), t, s, required())
	inner := acquire(outer.Context(), t, s, required())
	require.NoError(t, inner.Release(t.Context()))
	s.locker.last().preempt(time.Minute)

	_, err := s.Acquire(context.WithoutCancel(inner.Context()), required())
	requirePreempted(t, err)
}

func TestOverrunOfSeveralLevelsIsToldOnce(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		outer := acquire(t.Context(), t, s, required())
		inner := acquire(outer.Context(), t, s, required())
		s.locker.last().preempt(time.Second)
		time.Sleep(time.Minute)
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, outer.Release(t.Context()))
		require.True(t, only[CleanupOverrun](t, s.events).WorkRunning)
	})
}

func TestNestedHookWithoutATimeoutOfItsOwnHasThatOfTheLock(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		outer := acquire(t.Context(), t, s, required())
		for _, nested := range []Requirement{{Scope: scope}, {Scope: scope, Terms: priority.Terms{CleanupTimeout: 5 * time.Minute}}} {
			ctx, cancel := context.WithCancel(outer.Context())
			inner := acquire(ctx, t, s, nested)
			ran := false
			require.NoError(t, inner.OnCleanup(func(ctx context.Context) error {
				ran = true
				deadline, _ := ctx.Deadline()
				require.True(t, deadline.Equal(time.Now().Add(time.Minute)))
				return nil
			}))
			cancel()
			require.NoError(t, inner.Release(t.Context()))
			require.True(t, ran)
		}
	})
}

func TestLockIsGivenBackByTheLastOfNestedHolds(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		outer := acquire(t.Context(), t, s, required())
		inner := acquire(outer.Context(), t, s, required())

		require.NoError(t, outer.Release(t.Context()))
		require.Zero(t, s.locker.last().released(), "the inner one still works")
		synctest.Wait()
		require.ErrorAs(t, context.Cause(inner.Context()), new(*ShutdownError), "but the context around it has ended")
		require.NoError(t, inner.Release(t.Context()))
		require.Equal(t, 1, s.locker.last().released())
	})
}

func TestWithoutTheContextOneIsAStranger(t *testing.T) {
	s := newSetup(t)
	first := acquire(t.Context(), t, s, required())
	second := acquire(t.Context(), t, s, required())
	other := newSetup(t)
	third := acquire(first.Context(), t, other, required())

	require.Len(t, s.locker.grants, 2, "same owner, same process, other context")
	require.Len(t, other.locker.grants, 1, "other guard")
	for _, hold := range []*Hold{third, second, first} {
		require.NoError(t, hold.Release(t.Context()))
	}
}

func TestContextOfAReleasedHoldMakesAStranger(t *testing.T) {
	s := newSetup(t)
	hold := acquire(t.Context(), t, s, required())
	require.NoError(t, hold.Release(t.Context()))

	_, err := s.Acquire(hold.Context(), required())
	require.ErrorIs(t, err, ErrReleased, "it has ended")

	again := acquire(context.WithoutCancel(hold.Context()), t, s, required())
	require.Len(t, s.locker.grants, 2)
	require.NotEqual(t, hold.Token(), again.Token())
}

func TestAnotherScopeInTheContextOfAHoldIsAnotherLock(t *testing.T) {
	s := newSetup(t)
	a := acquire(t.Context(), t, s, required())
	b := acquire(a.Context(), t, s, Requirement{Scope: "cluster/users"})
	require.Len(t, s.locker.grants, 2)

	again := acquire(b.Context(), t, s, required())
	require.Len(t, s.locker.grants, 2, "the first scope is still held around")
	require.Equal(t, a.Token(), again.Token())
	for _, hold := range []*Hold{again, b, a} {
		require.NoError(t, hold.Release(t.Context()))
	}
}

func TestPreemptionOfAnotherScopeAroundIsAShutdown(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		a := acquire(t.Context(), t, s, required())
		outside := s.locker.last()
		b := acquire(a.Context(), t, s, Requirement{Scope: "cluster/users"})

		outside.preempt(time.Minute)
		synctest.Wait()

		down := as[*ShutdownError](t, context.Cause(b.Context()))
		require.Equal(t, "cluster/users", down.Scope)
		require.Equal(t, scope, requirePreempted(t, context.Cause(b.Context())).Scope)
	})
}

func TestShutdownSaysWhichLockItIsAbout(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a := acquire(ctx, t, s, required())
		b := acquire(a.Context(), t, s, Requirement{Scope: "cluster/users"})
		cancel(ErrShutdown)
		synctest.Wait()

		for _, hold := range []*Hold{b, a} {
			down := as[*ShutdownError](t, context.Cause(hold.Context()))
			require.Equal(t, hold.Info().Requirement.Scope, down.Scope)
			require.ErrorIs(t, down, ErrShutdown)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}

func TestInterruptedHoldCannotBeNested(t *testing.T) {
	for name, interrupt := range map[string]func(g *fakeGrant, cancel func()){
		"preempted": func(g *fakeGrant, _ func()) { g.preempt(time.Minute) },
		"withdrawn": func(g *fakeGrant, _ func()) {
			g.preempt(time.Minute)
			g.request.Notify(lock.PreemptionWithdrawn{})
		},
		"lost":      func(g *fakeGrant, _ func()) { g.lose(lock.LossTaken) },
		"shut down": func(_ *fakeGrant, cancel func()) { cancel() },
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			caller, cancel := context.WithCancel(t.Context())
			defer cancel()
			hold := acquire(caller, t, s, required())
			inner := acquire(hold.Context(), t, s, required())
			interrupt(s.locker.last(), cancel)
			synctest.Wait()

			require.Same(t, context.Cause(hold.Context()), context.Cause(inner.Context()))
			for _, ctx := range []context.Context{hold.Context(), context.WithoutCancel(hold.Context())} {
				err := s.Do(ctx, required(), func(context.Context) error { panic("work") })
				require.Same(t, context.Cause(hold.Context()), err)
			}
			require.Len(t, s.locker.grants, 1)
		})
	}
}

func TestHooksOfANestedHoldRunWhenItsOwnWorkEnds(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var order []string
		step := func(name string) Hook {
			return func(ctx context.Context) error {
				order = append(order, name)
				deadline, _ := ctx.Deadline()
				require.True(t, deadline.Equal(time.Now().Add(20*time.Second)))
				return nil
			}
		}
		err := s.Do(t.Context(), required(), func(ctx context.Context) error {
			err := s.Do(ctx, required(), s.preempted(20*time.Second), step("inner hook"))
			requirePreempted(t, err)
			order = append(order, "outer work")
			return err
		}, step("outer hook"))

		requirePreempted(t, err)
		require.Equal(t, []string{"inner hook", "outer work", "outer hook"}, order)
		require.Equal(t, 1, s.locker.last().released())
	})
}

func TestNestedWorkWithATimeoutOfItsOwnIsShutDownAlone(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		cleaned := 0
		err := s.Do(t.Context(), required(), func(ctx context.Context) error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			err := s.Do(short, Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: 5 * time.Second}}, untilCancelled, func(ctx context.Context) error {
				cleaned++
				deadline, _ := ctx.Deadline()
				require.True(t, deadline.Equal(time.Now().Add(5*time.Second)))
				return nil
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return ctx.Err()
		}, func(context.Context) error { panic("the outer work was not interrupted") })
		require.NoError(t, err)
		require.Equal(t, 1, cleaned)
	})
}

func TestNestedHooksCannotHaveMoreTimeThanTheLockWasTakenWith(t *testing.T) {
	s := newSetup(t)
	outer := acquire(t.Context(), t, s, Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: time.Second}})
	longer := Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: time.Minute}}

	err := s.Do(outer.Context(), longer, untilCancelled, func(context.Context) error { return nil })
	require.ErrorContains(t, err, "1m0s is more than the 1s")
	inner := acquire(outer.Context(), t, s, longer)
	require.NoError(t, inner.Release(t.Context()), "without hooks it does not matter")
}

func TestHookMayUseTheLockOnceMore(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		restored := 0
		restore := func(ctx context.Context) error {
			return s.Do(ctx, required(), func(ctx context.Context) error {
				return s.Do(ctx, required(), func(ctx context.Context) error {
					restored++
					// Asked again in the middle of it.
					s.locker.last().preempt(15 * time.Second)
					return ctx.Err()
				})
			})
		}
		err := s.Do(t.Context(), required(), s.preempted(20*time.Second), restore)
		requirePreempted(t, err)
		require.Equal(t, 1, restored)
		require.NotContains(t, err.Error(), "cleanup:")
		require.Len(t, s.locker.grants, 1)
		require.Equal(t, 1, s.locker.last().released())
	})
}

func TestWorkInsideAHookEndsWithTheGrace(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		start := time.Now()
		err := s.Do(t.Context(), required(), s.preempted(20*time.Second), func(ctx context.Context) error {
			return s.Do(ctx, required(), untilCancelled, func(ctx context.Context) error {
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "no grace on top of the grace")
				return nil
			})
		})
		requirePreempted(t, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 20*time.Second, time.Since(start))
	})
}

func TestSharedHoldCannotBecomeExclusive(t *testing.T) {
	s := newSetup(t)
	shared := acquire(t.Context(), t, s, Requirement{Scope: scope, Terms: priority.Terms{Mode: priority.Shared}})
	_, err := s.Acquire(shared.Context(), Requirement{Scope: scope})
	upgrade := as[*UpgradeError](t, err)
	require.Equal(t, scope, upgrade.Scope)
	require.NoError(t, shared.Context().Err())
	acquire(shared.Context(), t, s, Requirement{Scope: scope, Terms: priority.Terms{Mode: priority.Shared}})
	require.Len(t, s.locker.grants, 1)
}
