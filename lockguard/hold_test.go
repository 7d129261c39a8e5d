package lockguard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// acquire acquires what is granted. It is released at the end of the test, if it was not before.
func acquire(ctx context.Context, t *testing.T, s setup, requirements ...Requirement) *Hold {
	t.Helper()
	take := func() (*Hold, error) { return s.AcquireAll(ctx, requirements) }
	if len(requirements) == 1 {
		take = func() (*Hold, error) { return s.Acquire(ctx, requirements[0]) }
	}
	hold, err := take()
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := hold.Release(context.Background()); err != nil && !errors.Is(err, ErrReleased) {
			require.ErrorAs(t, err, new(*LostError))
		}
	})
	return hold
}

func TestReleaseOutlivesItsContextAndDoesNotWaitForEver(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		type key struct{}
		s.locker.prepare = func(g *fakeGrant) {
			g.release = func(ctx context.Context) error {
				require.Equal(t, "value", ctx.Value(key{}))
				require.NoError(t, ctx.Err())
				<-ctx.Done()
				return ctx.Err()
			}
		}
		hold := acquire(t.Context(), t, s, required())
		ended, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		cancel()
		start := time.Now()
		require.ErrorIs(t, hold.Release(ended), context.DeadlineExceeded)
		require.Equal(t, releaseTimeout, time.Since(start))
	})
}

// A grant may not know its token yet, and the server does not answer.
func TestSilentServerDoesNotHoldUpACallThatIsCancelledOnceItIsGranted(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		s.locker.prepare = func(g *fakeGrant) {
			silence := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			g.token = func(ctx context.Context) (lock.Token, error) { return 0, silence(ctx) }
			g.release = silence
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := s.Acquire(ctx, required())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second+giveBackLimit, time.Since(start))
		require.Equal(t, 1, s.locker.last().released())
	})
}

func TestReleasedHoldCannotBeUsed(t *testing.T) {
	s := newSetup(t)
	hold := acquire(t.Context(), t, s, required())
	errs := make(chan error)
	for range 8 { // at once
		go func() { errs <- hold.Release(t.Context()) }()
	}
	released := 0
	for range 8 {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, ErrReleased)
		} else {
			released++
		}
	}
	require.Equal(t, 1, released)
	require.Equal(t, 1, s.locker.last().released())

	require.ErrorIs(t, context.Cause(hold.Context()), ErrReleased)
	require.ErrorIs(t, hold.Extend(t.Context(), time.Hour), ErrReleased)
	require.ErrorIs(t, hold.OnCleanup(func(context.Context) error { return nil }), ErrReleased)
}

func TestInfoSaysWhatIsHeld(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())

		info := hold.Info()
		require.Equal(t, Token(101), info.Token)
		require.Equal(t, time.Now(), info.Since)
		require.Equal(t, time.Now().Add(10*time.Minute), info.LeaseDeadline)
		require.Equal(t, "compact", info.Requirement.Owner)
		require.Equal(t, about[Acquired](t, s.events).ID, info.ID)
		require.Equal(t, s.locker.last().deadline, hold.Deadline())
	})
}

func TestExtendStartsANewLease(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		time.Sleep(time.Minute)

		require.NoError(t, hold.Extend(t.Context(), time.Hour))
		require.Equal(t, time.Now().Add(time.Hour), hold.Info().LeaseDeadline)
		require.Equal(t, time.Hour, only[Extended](t, s.events).Lease)

		s.locker.last().ask(priority.LeaseExpired, time.Second)
		expired := as[*LeaseExpiredError](t, context.Cause(hold.Context()))
		require.Equal(t, time.Hour, expired.Lease)
		require.Equal(t, "hotfix", expired.By)
		require.Equal(t, time.Second, expired.Grace)
		require.NotErrorAs(t, context.Cause(hold.Context()), new(*PreemptedError), "causes are distinct")
	})
}

func TestExtendIsRefusedToWhoWasAskedToGo(t *testing.T) {
	s := newSetup(t)
	hold := acquire(t.Context(), t, s, required())
	s.locker.last().extend = func(context.Context, time.Duration) error { panic("asked") }
	s.locker.last().preempt(time.Minute)

	requirePreempted(t, hold.Extend(t.Context(), time.Hour))
	s.locker.last().request.Notify(lock.PreemptionWithdrawn{})
	s.locker.last().preempt(time.Second)
	require.Same(t, context.Cause(hold.Context()), hold.Extend(t.Context(), time.Hour))
}

func TestExtendSaysWhoAsksEvenBeforeTheNoticeComes(t *testing.T) {
	for name, told := range map[string]bool{"notice first": true, "refusal first": false} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t)
			hold := acquire(t.Context(), t, s, required())
			g := s.locker.last()
			g.extend = func(context.Context, time.Duration) error {
				if told {
					g.preempt(time.Minute)
				}
				return &lock.PreemptPendingError{Scope: scope, By: lock.PreemptRequested{
					By: lock.Contender{Identity: priority.Identity{Owner: "hotfix"}, Terms: priority.Terms{Priority: 9}}, Reason: priority.Outranked,
				}}
			}
			err := hold.Extend(t.Context(), time.Hour)
			requirePreempted(t, err)
			if told {
				require.Same(t, context.Cause(hold.Context()), err)
			}
			require.NoError(t, hold.Release(t.Context()))
		})
	}
}

func TestLossNeverShowsBeforeTheContextHasEnded(t *testing.T) {
	t.Run("in the signal", func(t *testing.T) {
		s := newSetup(t)
		hold := acquire(t.Context(), t, s, required())
		end := hold.cancel
		hold.cancel = func(cause error) {
			require.False(t, hold.Context().Err() == nil && isClosed(hold.Lost()))
			end(cause)
		}
		lost := s.locker.last().lose(lock.LossDeleted)

		require.Same(t, lost, context.Cause(hold.Context()))
		require.True(t, isClosed(hold.Lost()))
		require.Error(t, hold.Release(t.Context()))
	})
	for name, ask := range map[string]func(*Hold) error{
		"in the answer of ZooKeeper": func(h *Hold) error { return h.Extend(context.Background(), time.Hour) },
		"in a check":                 (*Hold).Check,
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			outer := acquire(t.Context(), t, s, required())
			hold := acquire(outer.Context(), t, s, required())
			lost := &LostError{Scope: scope, Reason: lock.LossTaken}
			s.locker.last().extend = func(context.Context, time.Duration) error { return lost }
			s.locker.last().check = func() error { return lost }

			require.Same(t, lost, ask(hold))
			require.Same(t, lost, context.Cause(hold.Context()))
			require.Same(t, lost, context.Cause(outer.Context()))
			require.True(t, isClosed(hold.Lost()))
			synctest.Wait()
			require.Same(t, lost, only[Lost](t, s.events).Err)
		})
	}
}

// foreignContext is a context that is not of the standard library: waiting for
// its end needs a goroutine.
type foreignContext struct {
	context.Context
	done chan struct{}
}

func (c foreignContext) Done() <-chan struct{} { return c.done }

func TestNothingOutlivesTheReleaseInALastingContext(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		lasting := foreignContext{t.Context(), make(chan struct{})}
		hold := acquire(lasting, t, s, required())
		s.locker.last().preempt(time.Hour) // a timer
		require.NoError(t, hold.Release(lasting))
		require.NoError(t, s.Do(lasting, required(), func(context.Context) error { return nil }))
	})
}

func TestHooksOfOneCallDoNotMixWithThoseOfAnother(t *testing.T) {
	s := newSetup(t)
	var ran []string
	step := func(name string) Hook {
		return func(context.Context) error { ran = append(ran, name); return nil }
	}
	hooks := append(make([]Hook, 0, 8), step("common"))
	for _, name := range []string{"first", "second"} {
		_ = s.Do(t.Context(), required(), func(ctx context.Context) error {
			hold, _ := FromContext(ctx)
			if name == "first" {
				require.Error(t, s.Do(t.Context(), required(), func(ctx context.Context) error {
					inner, _ := FromContext(ctx)
					require.NoError(t, hold.OnCleanup(step("outer")))
					require.NoError(t, inner.OnCleanup(step("inner")))
					s.locker.last().preempt(time.Minute)
					return nil
				}, hooks...))
				s.locker.grants[0].preempt(time.Minute)
			}
			return nil
		}, hooks...)
	}
	require.Equal(t, []string{"inner", "common", "outer", "common"}, ran)
}

func TestLostHoldReturnsTheLossOnEveryLevel(t *testing.T) {
	s := newSetup(t)
	outer := acquire(t.Context(), t, s, required())
	inner := acquire(outer.Context(), t, s, required())
	lost := s.locker.last().lose(lock.LossTaken)
	for _, hold := range []*Hold{inner, outer} {
		require.Same(t, lost, hold.Check())
		require.Same(t, lost, hold.Extend(t.Context(), time.Hour))
		if hold == outer { // alone by now
			require.ErrorIs(t, hold.Downgrade(t.Context()), lost)
		}
		require.Same(t, lost, hold.Release(t.Context()))
		require.ErrorIs(t, hold.Release(t.Context()), ErrReleased)
	}
}

func TestExtendThatFailsChangesNothing(t *testing.T) {
	s := newSetup(t)
	hold := acquire(t.Context(), t, s, required())
	s.locker.last().extend = func(context.Context, time.Duration) error { return errWork }
	before := hold.Info()
	for _, lease := range []time.Duration{-time.Minute, time.Minute} { // which leaves no time for the cleanup
		require.ErrorAs(t, hold.Extend(t.Context(), lease), new(*RequestError))
	}
	require.ErrorIs(t, hold.Extend(t.Context(), time.Hour), errWork)
	require.Equal(t, before, hold.Info())
	require.NotContains(t, s.events.names(), "Extended")
}
