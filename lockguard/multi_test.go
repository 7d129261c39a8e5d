package lockguard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// three are three locks with a minute of cleanup, given out of order.
func three(change ...func(*Requirement)) []Requirement {
	all := []Requirement{{Scope: "b"}, {Scope: "c"}, {Scope: "a"}}
	for i := range all {
		all[i].CleanupTimeout = time.Minute
		for _, f := range change {
			f(&all[i])
		}
	}
	return all
}

// diary writes down in which order locks are requested and released.
type diary []string

func (d *diary) keep(s setup) {
	s.locker.before = func(_ context.Context, g *fakeGrant) error {
		*d = append(*d, "+"+g.scope)
		g.release = func(context.Context) error {
			*d = append(*d, "-"+g.scope)
			return nil
		}
		return nil
	}
}

func TestSeveralLocksAreTakenInOneOrderAndGivenBackInReverse(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		// given a guard, and requirements that are not in order
		var steps diary
		steps.keep(s)
		requirements := three()

		// when work runs under all of them
		err := s.DoAll(t.Context(), requirements, func(ctx context.Context) error {
			steps = append(steps, "work")
			hold, ok := FromContext(ctx)
			require.True(t, ok)

			// then it has the tokens of all, and first that of the first given
			require.Equal(t, Token(102), hold.Token())
			require.Equal(t, "b", hold.Info().Requirement.Scope)
			require.Equal(t, map[string]Token{"a": 101, "b": 102, "c": 103}, hold.Tokens())
			require.NoError(t, hold.Check())
			return nil
		}, func(context.Context) error { panic("not interrupted") })

		// and each lock has a stream of events of its own
		require.NoError(t, err)
		require.Equal(t, diary{"+a", "+b", "+c", "work", "-c", "-b", "-a"}, steps)
		require.Equal(t, three(), requirements, "the caller's list is left alone")
		for _, scope := range []string{"a", "b", "c"} {
			require.Equal(t, []string{"Waiting", "Acquired", "Released"}, s.events.of(scope))
		}
	})
}

func TestPreemptionOfAnyLockEndsTheWorkThenHooksRunUnderAllLocks(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		runVirtual(t, victim, func(t *testing.T, s setup) {
			// given work under three locks, with hooks
			var steps diary
			steps.keep(s)
			var cause error
			hook := func(ctx context.Context) error {
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				require.Equal(t, 20*time.Second, time.Until(deadline), "the grace of the preempted lock")
				require.NoError(t, ctx.Err())
				steps = append(steps, "hook")
				return nil
			}

			// when one lock is preempted
			err := s.DoAll(t.Context(), three(), func(ctx context.Context) error {
				hold, _ := FromContext(ctx)
				s.locker.of(t, victim).preempt(20 * time.Second)
				require.ErrorIs(t, ctx.Err(), context.Canceled, "at once")
				cause = context.Cause(ctx)
				require.NoError(t, hold.Check(), "all are still held")
				return ctx.Err()
			}, hook, hook)

			// then the context has ended with the cause of that lock, and all are
			// given back in reverse order after the hooks
			requirePreempted(t, cause)
			require.Equal(t, victim, requirePreempted(t, err).Scope)
			require.Equal(t, diary{"+a", "+b", "+c", "hook", "hook", "-c", "-b", "-a"}, steps)
			for _, scope := range []string{"a", "b", "c"} {
				want := []string{"Waiting", "Acquired", "PreemptRequested", "CleanupStarted", "CleanupDone", "Released"}
				if scope != victim {
					want = slices.Delete(want, 2, 3)
				}
				require.Equal(t, want, s.events.of(scope))
			}
			for _, event := range s.events.list() {
				if released, ok := event.Notice.(Released); ok {
					require.Same(t, cause, released.Cause)
				}
			}
		})
	}
}

func TestShortestGraceThatStandsRulesTheHooks(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		err := s.DoAll(t.Context(), three(), func(ctx context.Context) error {
			s.locker.of(t, "a").preempt(time.Minute)
			return ctx.Err()
		}, func(ctx context.Context) error {
			// given a hook under the grace of one lock, when another lock is preempted
			// with a shorter one
			s.locker.of(t, "c").preempt(5 * time.Second)
			start := time.Now()
			<-ctx.Done()

			// then the context of the hook ends at the end of that one, with all locks held
			require.Equal(t, 5*time.Second, time.Since(start))
			require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
			require.ErrorContains(t, context.Cause(ctx), `for the cleanup of locks "b", "c", "a" is over`)
			require.Zero(t, s.locker.of(t, "b").released())
			<-time.After(time.Second) // who ends in the instant of the deadline may be in time
			return nil
		})
		require.Equal(t, "a", requirePreempted(t, err).Scope, "the first cause")
		for _, scope := range []string{"a", "b", "c"} {
			require.Contains(t, s.events.of(scope), "CleanupOverrun")
		}
	})
}

func TestHooksOfAShutdownHaveTheShortestCleanupTimeout(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		requirements := three()
		requirements[1].CleanupTimeout = 7 * time.Second
		ctx, cancel := context.WithCancelCause(t.Context())
		err := s.DoAll(ctx, requirements, func(ctx context.Context) error {
			cancel(ErrShutdown)
			return untilCancelled(ctx)
		}, func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			require.Equal(t, 7*time.Second, time.Until(deadline))
			return nil
		})
		shutdown, ok := errors.AsType[*ShutdownError](err)
		require.True(t, ok)
		require.Equal(t, "b", shutdown.Scope)
		require.ErrorIs(t, err, ErrShutdown)
	})
}

func TestLossOfAnyLockEndsTheWorkAndTheHooks(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		runVirtual(t, victim, func(t *testing.T, s setup) {
			var lost *LostError
			ran := false
			err := s.DoAll(t.Context(), three(), func(ctx context.Context) error {
				hold, _ := FromContext(ctx)
				lost = s.locker.of(t, victim).lose(lock.LossTaken)
				require.Same(t, lost, context.Cause(ctx))
				<-hold.Lost()
				require.ErrorIs(t, hold.Check(), lost)
				return context.Cause(ctx)
			}, func(ctx context.Context) error {
				ran = true
				require.Same(t, lost, context.Cause(ctx))
				return nil
			})
			require.Same(t, lost, err)
			require.True(t, ran)
			for _, scope := range []string{"a", "b", "c"} {
				require.Equal(t, 1, s.locker.of(t, scope).released())
				end := "Released"
				if scope == victim {
					end = "Lost"
				}
				require.Contains(t, s.events.of(scope), end)
			}
			for _, event := range s.events.list() {
				if started, ok := event.Notice.(CleanupStarted); ok {
					require.Zero(t, started.Deadline, "no grace after a loss")
				}
			}
		})
	}
}

// Curator ML1
func TestReleaseThatFailsDoesNotKeepTheOtherLocks(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		// given three locks, two of which cannot be given back
		s.locker.prepare = func(g *fakeGrant) {
			if g.scope != "a" {
				g.release = func(context.Context) error { return errors.New("no answer about " + g.scope) }
			}
		}
		hold := acquire(t.Context(), t, s, three()...)

		// when they are released
		err := hold.Release(t.Context())

		// then both errors are returned, and the third is released
		require.EqualError(t, err, "no answer about c; no answer about b")
		require.Equal(t, 1, s.locker.of(t, "a").released())
		require.ErrorIs(t, hold.Release(t.Context()), ErrReleased)
		require.ErrorIs(t, hold.Check(), ErrReleased)
		require.ErrorIs(t, hold.Extend(t.Context(), time.Hour), ErrReleased)
	})
}

// Curator ML2
func TestLockThatIsNotAcquiredGivesTheOthersBack(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		var steps diary
		steps.keep(s)
		record := s.locker.before
		refusal := &lock.NotAcquiredError{Scope: "c"}
		s.locker.before = func(ctx context.Context, g *fakeGrant) error {
			if err := record(ctx, g); err != nil || g.scope != "c" {
				return err
			}
			return refusal
		}
		err := s.DoAll(t.Context(), three(), func(context.Context) error { panic("not under all locks") })
		require.Same(t, refusal, err)
		require.Equal(t, diary{"+a", "+b", "+c", "-b", "-a"}, steps)
		require.Equal(t, []string{"Waiting", "NotAcquired"}, s.events.of("c"))
		require.Equal(t, []string{"Waiting", "Acquired", "Released"}, s.events.of("a"))
	})
}

func TestLockThatHasToGoWhileOthersAreWaitedForGivesAllBackAndBeginsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(g *fakeGrant)
		end     []string // of the events of the lock
	}{
		"preempted": {func(g *fakeGrant) { g.preempt(time.Minute) }, []string{"PreemptRequested", "Released"}},
		"lease":     {func(g *fakeGrant) { g.ask(priority.LeaseExpired, time.Minute) }, []string{"PreemptRequested", "Released"}},
		"lost":      {func(g *fakeGrant) { g.lose(lock.LossDeleted) }, []string{"Lost"}},
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			// given a request that holds a and b, and waits for c
			var steps diary
			steps.keep(s)
			record := s.locker.before
			var left []time.Duration
			s.locker.before = func(ctx context.Context, g *fakeGrant) error {
				left = append(left, *g.request.AcquireTimeout)
				if err := record(ctx, g); err != nil || g.scope != "c" || len(steps) > 3 {
					return err
				}
				time.Sleep(10 * time.Second)
				// when a has to go
				c.happens(s.locker.of(t, "a"))
				<-ctx.Done()
				return context.Cause(ctx)
			}

			// then all is given back at once, and begun anew within the same time
			hold := acquire(t.Context(), t, s, three(func(r *Requirement) { r.AcquireTimeout = new(time.Minute) })...)
			require.NoError(t, hold.Context().Err())
			require.NoError(t, hold.Release(t.Context()))

			want := diary{"+a", "+b", "+c", "-b", "-a", "+a", "+b", "+c", "-c", "-b", "-a"}
			if name == "lost" {
				want = slices.Delete(want, 4, 5)
			}
			require.Equal(t, want, steps)
			require.Equal(t, []time.Duration{60e9, 60e9, 60e9, 50e9, 50e9, 50e9}, left)
			again := []string{"Waiting", "Acquired", "Released"}
			require.Equal(t, slices.Concat([]string{"Waiting", "Acquired"}, c.end, again), s.events.of("a"))
			require.Equal(t, slices.Concat(again, again), s.events.of("b"))
			require.Equal(t, slices.Concat([]string{"Waiting", "NotAcquired"}, again), s.events.of("c"))
		})
	}
}

func TestTryOfSeveralLocksDoesNotBeginAnew(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		s.locker.before = func(ctx context.Context, g *fakeGrant) error {
			require.Zero(t, *g.request.AcquireTimeout, "0 in one is 0 in all")
			if g.scope == "c" {
				s.locker.of(t, "a").preempt(time.Minute)
				return context.Cause(ctx)
			}
			return nil
		}
		requirements := three()
		requirements[2].AcquireTimeout = new(time.Duration(0))
		requirements[1].AcquireTimeout = new(time.Hour)
		_, err := s.AcquireAll(t.Context(), requirements)
		requirePreempted(t, err)
		require.Len(t, s.locker.grants, 2)
	})
}

func TestTimeOfARefusalCountsFromTheCall(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			if g.scope == "a" {
				time.Sleep(20 * time.Second)
				return nil
			}
			time.Sleep(*g.request.AcquireTimeout)
			return &lock.NotAcquiredError{Scope: g.scope, Waited: *g.request.AcquireTimeout}
		}
		_, err := s.AcquireAll(t.Context(), three(func(r *Requirement) { r.AcquireTimeout = new(time.Minute) }))
		require.EqualError(t, err, `lock "b" not acquired within 1m0s`)
	})
}

func TestSilentReleaseDoesNotHoldUpACallThatHasFailed(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			g.release = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			if g.scope == "c" {
				return &lock.UnavailableError{}
			}
			return nil
		}
		start := time.Now()
		_, err := s.AcquireAll(t.Context(), three())
		require.ErrorAs(t, err, new(*lock.UnavailableError))
		require.Equal(t, giveBackLimit, time.Since(start))
	})
}

func TestLeaseThatWasUsedUpByWaitingIsGivenAgain(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		extended := map[string]time.Duration{}
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			g.extend = func(_ context.Context, lease time.Duration) error {
				extended[g.scope] = lease
				return nil
			}
			if g.scope == "c" {
				time.Sleep(2 * time.Minute)
			}
			return nil
		}
		requirements := three()
		requirements[2].LeaseTimeout = time.Hour // a: 2m of it is not much
		hold := acquire(t.Context(), t, s, requirements...)
		require.Equal(t, map[string]time.Duration{"b": 10 * time.Minute}, extended)
		require.Equal(t, 10*time.Minute, time.Until(hold.Info().LeaseDeadline))

		require.NoError(t, hold.Extend(t.Context(), 3*time.Hour))
		require.Equal(t, map[string]time.Duration{"a": 3 * time.Hour, "b": 3 * time.Hour, "c": 3 * time.Hour}, extended)
	})
}

func TestMinimumRuntimeOfSeveralLocksBeginsWhenAllAreHeld(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		// given three locks, two with a minimum runtime, and long to wait for the last
		asked, protected := map[string]time.Duration{}, map[string]time.Duration{}
		s.locker.before = func(_ context.Context, g *fakeGrant) error {
			asked[g.scope] = g.request.MinRuntime
			g.extend = func(context.Context, time.Duration) error {
				require.NotContains(t, protected, g.scope, "the new lease comes first")
				return nil
			}
			g.protect = func(_ context.Context, least time.Duration) error {
				require.Len(t, s.locker.grants, 3, "all are held")
				protected[g.scope] = least
				return nil
			}
			if g.scope == "c" {
				time.Sleep(time.Hour)
			}
			return nil
		}

		// when they are acquired
		requirements := three()
		requirements[0].MinRuntime, requirements[1].MinRuntime = 5*time.Minute, 7*time.Minute // b and c
		acquire(t.Context(), t, s, requirements...)

		// then that of the last begins with its grant, and the other one after that
		require.Equal(t, map[string]time.Duration{"a": 0, "b": 0, "c": 7 * time.Minute}, asked)
		require.Equal(t, map[string]time.Duration{"b": 5 * time.Minute}, protected)
	})
}

func TestEachOfSeveralLocksIsReentrant(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		err := s.DoAll(t.Context(), three(), func(ctx context.Context) error {
			for _, scope := range []string{"a", "b", "c"} {
				inner := acquire(ctx, t, s, Requirement{Scope: scope})
				require.Equal(t, s.locker.of(t, scope).number, inner.Token())
				require.NoError(t, inner.Release(t.Context()))
			}
			require.NoError(t, s.DoAll(ctx, []Requirement{{Scope: "c"}, {Scope: "b"}}, func(ctx context.Context) error {
				hold, _ := FromContext(ctx)
				require.Equal(t, "c", hold.Info().Requirement.Scope)
				return nil
			}))
			require.Len(t, s.locker.grants, 3)

			s.locker.of(t, "a").preempt(time.Minute)
			_, err := s.Acquire(context.WithoutCancel(ctx), Requirement{Scope: "c"})
			require.Equal(t, "a", requirePreempted(t, err).Scope, "nothing new once one of them has to go")
			return ctx.Err()
		}, func(ctx context.Context) error {
			for _, scope := range []string{"a", "b", "c"} {
				require.NoError(t, s.Do(ctx, Requirement{Scope: scope}, func(context.Context) error { return nil }), "in a hook")
			}
			return nil
		})
		requirePreempted(t, err)
		require.Len(t, s.locker.grants, 3)
		for _, g := range s.locker.grants {
			require.Equal(t, 1, g.released())
		}
	})
}

func TestOuterHoldThatHasToGoWhileOthersAreWaitedForIsNoReasonToBeginAnew(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		outer := acquire(t.Context(), t, s, Requirement{Scope: "a", Terms: priority.Terms{CleanupTimeout: time.Minute}})
		s.locker.before = func(ctx context.Context, _ *fakeGrant) error {
			s.locker.of(t, "a").preempt(time.Minute)
			return context.Cause(ctx)
		}
		_, err := s.AcquireAll(context.WithoutCancel(outer.Context()), three())
		requirePreempted(t, err)
	})
}

func TestWorkThatStopsItselfHasItsHooksRunUnderAllLocks(t *testing.T) {
	virtual(t, func(t *testing.T, s setup) {
		ran := false
		err := s.DoAll(t.Context(), three(), func(ctx context.Context) error {
			hold, _ := FromContext(ctx)
			for _, g := range s.locker.grants { // they share a session
				g.request.Notify(lock.AtRisk{Deadline: g.deadline})
			}
			<-hold.AtRisk()
			return ErrStopped
		}, func(context.Context) error {
			ran = true
			for _, g := range s.locker.grants {
				require.Zero(t, g.released())
			}
			return nil
		})
		require.ErrorIs(t, err, ErrStopped)
		require.True(t, ran)
	})
}

func TestHookAddedLaterNeedsACleanupTimeoutInAll(t *testing.T) {
	s := newSetup(t)
	requirements := three()
	requirements[2].CleanupTimeout = 0
	hold := acquire(t.Context(), t, s, requirements...)
	require.ErrorAs(t, hold.OnCleanup(func(context.Context) error { return nil }), new(*RequestError))
}

func TestRequirementsThatDoNotGoTogetherAreRefusedAllAtOnce(t *testing.T) {
	s := newSetup(t)
	err := s.DoAll(t.Context(), []Requirement{
		{Scope: "a", Terms: priority.Terms{CleanupTimeout: time.Second}},
		{Scope: "b", Terms: priority.Terms{Priority: -1}},
		{Scope: "a", Terms: priority.Terms{CleanupTimeout: time.Second}},
	}, func(context.Context) error { panic("never") }, func(context.Context) error { return nil })
	require.ErrorContains(t, err, "requirements[1].priority: ")
	require.ErrorContains(t, err, "requirements[1].cleanup_timeout: is not set")
	require.ErrorContains(t, err, `requirements[2].scope: "a" is that of requirements[0] already; give each scope once`)
	require.Empty(t, s.locker.grants)
	require.Empty(t, s.events.names())

	_, err = s.AcquireAll(t.Context(), nil)
	require.EqualError(t, err, "lockkeeper: requirements: there is none; give one for each lock")
}

func TestLocksOneOfWhichHasToGoBeforeTheWorkBeginsAreAcquiredAnew(t *testing.T) {
	mark := &lock.Mark{ID: "INC-7"}
	pending := func(g *fakeGrant, asked lock.PreemptRequested) error {
		return &lock.PreemptPendingError{Scope: g.scope, By: asked}
	}
	for name, first := range map[string]func(a, g *fakeGrant){ // what happens to each grant of the first round
		"when the last one is granted": func(a, g *fakeGrant) {
			g.token = func(context.Context) (lock.Token, error) {
				if g.scope == "c" {
					a.preempt(time.Minute)
				}
				return g.number, nil
			}
		},
		"when the last one is granted, for an override": func(a, g *fakeGrant) {
			g.token = func(context.Context) (lock.Token, error) {
				if g.scope == "c" {
					a.request.Notify(lock.PreemptRequested{Override: mark})
				}
				return g.number, nil
			}
		},
		"its lease is not given again": func(_, g *fakeGrant) {
			g.extend = func(context.Context, time.Duration) error {
				return pending(g, lock.PreemptRequested{Reason: priority.LeaseExpired})
			}
		},
		"while the lease of another is given again": func(a, g *fakeGrant) {
			g.extend = func(context.Context, time.Duration) error {
				if g.scope == "b" {
					a.preempt(time.Minute)
				}
				return nil
			}
		},
		"before its minimum runtime begins": func(_, g *fakeGrant) {
			g.protect = func(context.Context, time.Duration) error {
				return pending(g, lock.PreemptRequested{Reason: priority.Outranked})
			}
		},
		"before its minimum runtime begins, for an override": func(_, g *fakeGrant) {
			g.protect = func(context.Context, time.Duration) error {
				return pending(g, lock.PreemptRequested{Override: mark})
			}
		},
	} {
		runVirtual(t, name, func(t *testing.T, s setup) {
			rounds := 0
			s.locker.before = func(_ context.Context, g *fakeGrant) error {
				if g.scope == "a" {
					rounds++
				}
				if rounds == 1 && g.scope == "c" {
					time.Sleep(time.Hour) // the leases of the others are used up
				}
				return nil
			}
			s.locker.prepare = func(g *fakeGrant) {
				if rounds == 1 {
					first(s.locker.grants[0], g)
				}
			}
			err := s.DoAll(t.Context(), three(func(r *Requirement) { r.MinRuntime = time.Minute }), func(ctx context.Context) error { return ctx.Err() })
			require.NoError(t, err)
			require.Equal(t, 2, rounds)
			for _, g := range s.locker.grants {
				require.Equal(t, 1, g.released(), g.scope)
			}
		})
	}
}
