package lockguard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestWorkRunsUnderTheLockAndGivesItBack(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var work context.Context

		s.locker.prepare = func(g *fakeGrant) {
			g.release = func(context.Context) error {
				require.Error(t, work.Err(), "whatever still uses it must not believe that it holds")
				return nil
			}
		}

		err := s.Do(t.Context(), required(), func(ctx context.Context) error {
			work = ctx
			hold, ok := FromContext(ctx)
			require.True(t, ok)
			require.Equal(t, Token(101), hold.Token())
			require.NoError(t, ctx.Err())
			require.Zero(t, s.locker.last().released())
			return nil
		}, func(context.Context) error { panic("not interrupted") })

		require.NoError(t, err)
		require.Equal(t, 1, s.locker.last().released())
		require.ErrorIs(t, context.Cause(work), ErrReleased)
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, s.events.names())
		_, ok := FromContext(t.Context())
		require.False(t, ok)
	})
}

func TestShutdownEndsTheWorkAndIsSaidOnce(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := s.Do(ctx, required(), func(work context.Context) error {
			want, _ := ctx.Deadline()
			got, _ := work.Deadline()
			require.Equal(t, want, got)
			cancel()
			return untilCancelled(work)
		})
		require.ErrorAs(t, err, new(*ShutdownError))
		require.EqualError(t, err, `work under lock "cluster/orders" was shut down: context canceled`)
	})
}

func TestPreemptionCancelsTheWorkWithItsCause(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var end time.Time

		err := s.Do(t.Context(), required(), func(ctx context.Context) error {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			end = time.Now().Add(20 * time.Second)
			s.locker.last().preempt(20 * time.Second)
			require.ErrorIs(t, child.Err(), context.Canceled)
			require.Equal(t, context.Cause(ctx), context.Cause(child))
			return child.Err()
		})

		preempted := requirePreempted(t, err)
		require.Equal(t, scope, preempted.Scope)
		require.Equal(t, 20*time.Second, preempted.Grace)
		require.True(t, preempted.Deadline.Equal(end))
		require.True(t, preempted.Forceful)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, s.locker.last().released())
		require.Equal(t, `lock "cluster/orders" preempted by "hotfix" (priority 9, forceful), 20s to clean up; context canceled`, err.Error())
	})
}

func TestLossCancelsTheWorkWithItsCause(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var lost *LostError

		err := s.Do(t.Context(), required(), func(ctx context.Context) error {
			lost = s.locker.last().lose(lock.LossDeleted)
			require.Same(t, lost, context.Cause(ctx))
			return errWork
		})

		require.ErrorIs(t, err, lost)
		require.ErrorIs(t, err, errWork)
		require.Equal(t, 1, strings.Count(err.Error(), "lost"))
		require.Equal(t, []string{"Waiting", "Acquired", "Lost"}, s.events.names())
	})
}

func TestWorkThatReturnsTheCauseDoesNotSayItTwice(t *testing.T) {
	s := newSetup(t)
	err := s.Do(t.Context(), required(), func(ctx context.Context) error {
		s.locker.last().preempt(time.Minute)
		return fmt.Errorf("compacting: %w", context.Cause(ctx))
	})
	require.Regexp(t, `^compacting: lock "cluster/orders" preempted by [^;]*$`, err.Error())
}

func TestPanicOfWorkBecomesAnErrorAndTheLockIsReleased(t *testing.T) {
	s := newSetup(t)
	err := s.Do(t.Context(), required(), func(context.Context) error { panic(errWork) })

	panicked := as[*PanicError](t, err)
	require.Equal(t, "work", panicked.In)
	require.Contains(t, string(panicked.Stack), "do_test.go")
	require.ErrorIs(t, err, errWork)
	require.Equal(t, 1, s.locker.last().released())
}

func TestWorkMayReleaseTheLockItself(t *testing.T) {
	s := newSetup(t)
	err := s.Do(t.Context(), required(), func(ctx context.Context) error {
		hold, _ := FromContext(ctx)
		return hold.Release(ctx)
	})
	require.NoError(t, err)

	err = s.Do(t.Context(), required(), func(ctx context.Context) error {
		hold, _ := FromContext(ctx)
		s.locker.last().preempt(time.Minute)
		return hold.Release(ctx)
	})
	requirePreempted(t, err)
	require.Equal(t, 1, s.locker.last().released())
}

func TestWorkIsNotStartedWhenTheLockIsWantedBack(t *testing.T) {
	for name, happens := range map[string]func(g *fakeGrant) error{
		"preempted": func(g *fakeGrant) error { g.preempt(time.Minute); return new(PreemptedError) },
		"lost":      func(g *fakeGrant) error { g.lose(lock.LossTaken); return new(LostError) },
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			var want error
			s.locker.prepare = func(g *fakeGrant) {
				g.token = func(context.Context) (lock.Token, error) {
					want = happens(g)
					return 101, nil
				}
			}

			err := s.Do(t.Context(), required(),
				func(context.Context) error { panic("work") },
				func(context.Context) error { panic("hook") })

			require.IsType(t, want, err) //nolint:testifylint // the type is the claim
			require.Equal(t, 1, s.locker.last().released())
			require.Equal(t, []string{"Waiting", "NotAcquired"}, s.events.names())
			require.Equal(t, err, only[NotAcquired](t, s.events).Err)
		})
	}
}

func TestLockThatIsLostBeforeItsTokenIsKnownIsNotAcquired(t *testing.T) {
	s := newSetup(t)
	var lost *LostError
	s.locker.prepare = func(g *fakeGrant) {
		g.token = func(context.Context) (lock.Token, error) {
			lost = g.lose(lock.LossSession)
			return 0, errWork // whatever it says
		}
	}
	_, err := s.Acquire(t.Context(), required())
	require.Same(t, lost, err)
}

func TestCallerWhoGivesUpGetsItsCauseAndHoldsNothing(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s.locker.before = func(ctx context.Context, _ *fakeGrant) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		time.AfterFunc(time.Second, func() { cancel(ErrShutdown) })

		_, err := s.Acquire(ctx, required())

		require.ErrorIs(t, err, ErrShutdown)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, s.locker.grants)
		failed := only[NotAcquired](t, s.events)
		require.Equal(t, err, failed.Err)
		require.Equal(t, time.Second, failed.Waited)
	})
}

func TestGrantThatComesTooLateForItsCallerIsGivenBack(t *testing.T) {
	s := newSetup(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.locker.prepare = func(g *fakeGrant) {
		g.release = func(ctx context.Context) error {
			require.NoError(t, ctx.Err())
			return nil
		}
		cancel()
	}
	_, err := s.Acquire(ctx, required())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, s.locker.last().released())

	_, err = s.Acquire(ctx, required())
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.locker.grants, 1, "nothing is asked for any more")
}

func TestWhatTheReleaseFindsIsAnErrorOfDoOnlyIfTheLockMayHaveBeenLostUnderTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		release  func(g *fakeGrant) error
		lost     bool  // is the lock, else it is released
		released error // what Released says then
	}{
		"not confirmed": {release: func(*fakeGrant) error { return errWork }, released: errWork},
		"session expired": {
			release:  func(g *fakeGrant) error { return g.lose(lock.LossSession) },
			released: &LostError{Scope: scope, Token: 101, Reason: lock.LossSession},
		},
		"confirmed": {release: func(g *fakeGrant) error {
			g.lose(lock.LossDeleted) // it sees its own node go
			return nil
		}},
		"loss noticed": {lost: true, release: func(g *fakeGrant) error {
			g.lose(lock.LossTaken)
			return errWork
		}},
		"loss returned": {lost: true, release: func(*fakeGrant) error {
			return &LostError{Scope: scope, Reason: lock.LossDeleted}
		}},
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			s.locker.prepare = func(g *fakeGrant) {
				g.release = func(context.Context) error { return c.release(g) }
			}
			var hold *Hold
			err := s.Do(t.Context(), required(), func(ctx context.Context) error {
				hold, _ = FromContext(ctx)
				return nil
			})
			if !c.lost {
				require.NoError(t, err)
				require.Equal(t, c.released, only[Released](t, s.events).Err)
				require.Equal(t, []string{"Waiting", "Acquired", "Released"}, s.events.names())
				return
			}
			require.ErrorAs(t, err, new(*LostError), "it is unknown whether it was held until the work ended")
			<-hold.Lost()
			require.Equal(t, []string{"Waiting", "Acquired", "Lost"}, s.events.names())
		})
	}
}
