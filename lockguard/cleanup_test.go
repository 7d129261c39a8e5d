package lockguard

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// preempted is work that is preempted, and ends.
func (s setup) preempted(grace time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		s.locker.last().preempt(grace)
		return untilCancelled(ctx)
	}
}

func TestHooksRunLastOneFirstAfterTheWorkAndUnderTheLock(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		type key struct{}
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var order []string
		step := func(name string) Hook {
			return func(ctx context.Context) error {
				require.Zero(t, s.locker.last().released())
				hold, _ := FromContext(ctx)
				require.Equal(t, Token(101), hold.Token())
				require.Equal(t, "value", ctx.Value(key{}))
				cancel()
				synctest.Wait()
				require.NoError(t, ctx.Err(), "the caller's end is not the hook's")
				time.Sleep(time.Second)
				order = append(order, name)
				return nil
			}
		}

		err := s.Do(caller, required(), func(ctx context.Context) error {
			hold, _ := FromContext(ctx)
			require.NoError(t, hold.OnCleanup(step("third")))
			s.locker.last().preempt(time.Minute)
			require.NoError(t, hold.OnCleanup(step("fourth")), "work may do more before it notices")
			time.Sleep(time.Second) // slow to stop: no hook may begin
			order = append(order, "work")
			return nil
		}, step("first"), step("second"))

		requirePreempted(t, err)
		require.Equal(t, []string{"work", "fourth", "third", "second", "first"}, order)
		require.Equal(t, 1, s.locker.last().released())
		require.Equal(t, []string{"Waiting", "Acquired", "PreemptRequested", "CleanupStarted", "CleanupDone", "Released"}, s.events.names())
		require.Equal(t, 4, only[CleanupStarted](t, s.events).Hooks)
		require.Equal(t, 4*time.Second, only[CleanupDone](t, s.events).Took)
	})
}

func TestHooksRunForEveryKindOfInterruption(t *testing.T) {
	for name, interrupt := range map[string]func(g *fakeGrant, cancel func()){
		"preempted": func(g *fakeGrant, _ func()) { g.preempt(time.Minute) },
		"lease":     func(g *fakeGrant, _ func()) { g.ask("lease", time.Minute) },
		"shutdown":  func(_ *fakeGrant, cancel func()) { cancel() },
		"lost":      func(g *fakeGrant, _ func()) { g.lose(lock.LossDeleted) },
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran := 0
			err := s.Do(ctx, required(), func(ctx context.Context) error {
				interrupt(s.locker.last(), cancel)
				return untilCancelled(ctx)
			}, func(context.Context) error {
				ran++
				time.Sleep(9 * time.Second)
				return nil
			})
			require.Error(t, err)
			require.Equal(t, 1, ran)
			time.Sleep(time.Hour)
			require.NotContains(t, s.events.names(), "CleanupOverrun", "it was in time")
		})
	}
}

func TestHooksOfAnAcquiredHoldRunInRelease(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		hold := acquire(t.Context(), t, s, required())
		ran := 0
		require.NoError(t, hold.OnCleanup(func(ctx context.Context) error {
			ran++
			require.ErrorIs(t, hold.Release(ctx), ErrReleased, "a hook that releases does no harm")
			require.ErrorIs(t, hold.OnCleanup(func(context.Context) error { return nil }), ErrReleased)
			return errWork
		}))
		s.locker.last().preempt(time.Minute)
		synctest.Wait()
		require.Zero(t, ran, "the end of the work is not yet known")

		require.ErrorIs(t, hold.Release(t.Context()), errWork)
		require.Equal(t, 1, ran)
	})
}

func TestLossDuringTheCleanupCancelsTheHooksThatRunAndFollow(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var ran []string
		err := s.Do(t.Context(), required(), s.preempted(time.Minute),
			func(ctx context.Context) error {
				ran = append(ran, "second")
				require.ErrorAs(t, context.Cause(ctx), new(*LostError))
				return nil
			},
			func(ctx context.Context) error {
				ran = append(ran, "first")
				lost := s.locker.last().lose(lock.LossTaken)
				require.Same(t, lost, context.Cause(ctx))
				time.Sleep(time.Hour)
				return nil
			})
		requirePreempted(t, err)
		require.ErrorAs(t, err, new(*LostError))
		require.Equal(t, 1, strings.Count(err.Error(), "lost"))
		require.Equal(t, []string{"first", "second"}, ran, "each once")
		synctest.Wait()
		require.NotContains(t, s.events.names(), "Released")
		require.NotContains(t, s.events.names(), "CleanupOverrun")
	})
}

func TestOverrunOfTheGraceIsToldAndTheLockStays(t *testing.T) {
	for name, inWork := range map[string]bool{"in the work": true, "in a hook": false} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			overrun := func() {
				time.Sleep(9 * time.Second)
				synctest.Wait()
				require.NotContains(t, s.events.names(), "CleanupOverrun")
				time.Sleep(time.Hour)
				require.Contains(t, s.events.names(), "CleanupOverrun")
				require.Zero(t, s.locker.last().released())
			}
			ran := 0
			err := s.Do(t.Context(), required(), func(context.Context) error {
				s.locker.last().preempt(10 * time.Second)
				if inWork {
					overrun()
				}
				return nil
			}, func(ctx context.Context) error {
				ran++
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
				return nil
			}, func(context.Context) error {
				if !inWork {
					overrun()
				}
				return nil
			})
			requirePreempted(t, err)
			require.Equal(t, 1, ran)
			require.Equal(t, 1, s.locker.last().released())
			told := only[CleanupOverrun](t, s.events)
			require.Equal(t, 10*time.Second, told.Grace)
			require.Equal(t, inWork, told.WorkRunning)
		})
	}
}

func TestOverrunOfAShutdownIsTold(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Do(ctx, required(), func(context.Context) error {
			cancel()
			return nil
		}, func(context.Context) error {
			time.Sleep(2 * time.Minute)
			return nil
		})
		require.Error(t, err)
		require.Equal(t, time.Minute, only[CleanupOverrun](t, s.events).Grace)
	})
}

func TestTimeOfHooksIsTheShortestThatWasPromised(t *testing.T) {
	preempt := func(grace time.Duration) func(*fakeGrant) { return func(g *fakeGrant) { g.preempt(grace) } }
	withdrawn := func(g *fakeGrant) {
		g.preempt(10 * time.Second)
		g.request.Notify(lock.PreemptionWithdrawn{})
	}
	late := func(g *fakeGrant) {
		time.Sleep(30 * time.Second)
		g.preempt(time.Minute)
	}
	for name, c := range map[string]struct {
		work func(*fakeGrant) // what happens in the work, which then lasts five seconds; nil is a shutdown
		hook func(*fakeGrant) // what happens in the hook before
		want time.Duration    // until the deadline, from the start
	}{
		"shutdown: the cleanup timeout from the end of the work on": {nil, nil, 65 * time.Second},
		"a preemption shortens that":                                {nil, preempt(10 * time.Second), 15 * time.Second},
		"a preemption does not lengthen that":                       {nil, late, 65 * time.Second},
		"preemption: its grace":                                     {preempt(30 * time.Second), nil, 30 * time.Second},
		"a shorter grace counts":                                    {preempt(30 * time.Second), preempt(10 * time.Second), 15 * time.Second},
		"a longer grace does not":                                   {preempt(30 * time.Second), preempt(50 * time.Second), 30 * time.Second},
		"a preemption that was withdrawn revives nothing":           {withdrawn, preempt(50 * time.Second), 10 * time.Second},
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			ctx, cancel := context.WithCancelCause(t.Context())
			start, ran := time.Now(), false
			err := s.Do(ctx, required(), func(ctx context.Context) error {
				if c.work == nil {
					cancel(ErrShutdown)
				} else {
					c.work(s.locker.last())
					requirePreempted(t, context.Cause(ctx))
				}
				time.Sleep(5 * time.Second)
				return nil
			}, func(ctx context.Context) error {
				deadline, _ := ctx.Deadline()
				require.Equal(t, c.want, deadline.Sub(start))
				<-ctx.Done()
				require.Equal(t, c.want, time.Since(start))
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
				require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
				require.ErrorContains(t, context.Cause(ctx), "for the cleanup")
				ran = true
				return nil
			}, func(ctx context.Context) error {
				if c.hook != nil {
					c.hook(s.locker.last())
				}
				return ctx.Err()
			})
			require.True(t, ran)
			require.Equal(t, 1, s.locker.last().released())
			if c.work == nil {
				require.ErrorIs(t, err, ErrShutdown)
			} else {
				requirePreempted(t, err)
			}
		})
	}
}

func TestFailingHooksDoNotKeepTheOthersFromRunning(t *testing.T) {
	s := newSetup(t)
	ran := 0
	err := s.Do(t.Context(), required(), s.preempted(time.Minute),
		func(context.Context) error { ran++; return nil },
		func(context.Context) error { panic("broken") },
		func(context.Context) error { return errWork })

	require.Equal(t, 1, ran)
	requirePreempted(t, err)
	var panicked *PanicError
	for _, err := range []error{err, only[CleanupDone](t, s.events).Err} {
		require.ErrorIs(t, err, errWork)
		require.ErrorAs(t, err, &panicked)
		require.Equal(t, "cleanup hook", panicked.In)
		require.Equal(t, "broken", panicked.Value)
	}
	require.Equal(t, 1, s.locker.last().released())
}

func TestGoroutineThatEndsInTheWorkAndInAHookGivesTheLockBack(t *testing.T) {
	s := newSetup(t)
	ran := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Do(t.Context(), required(), func(context.Context) error {
			s.locker.last().preempt(time.Minute)
			runtime.Goexit()
			return nil
		}, func(context.Context) error { ran++; return nil }, func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-done
	require.Equal(t, 1, ran)
	require.Equal(t, 1, s.locker.last().released())
	require.Contains(t, s.events.names(), "CleanupDone")
}
