package temporal

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

func TestLockThatIsHeldAroundIsNotAskedForAgain(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	var outer, inner WorkflowHold
	err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
		outer = hold
		if err := WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			inner = hold
			_, err := execute(ctx, "work")
			return err
		}, OnPreempt(func(workflow.Context, Preemption) error { s.step("hook"); return nil })); err != nil {
			return err
		}
		_, err := execute(ctx, "work") // the lock is still there
		return err
	})
	require.NoError(t, err)
	require.Equal(t, outer, inner)
	require.Len(t, s.inputs, 1)
	require.Equal(t, []string{"work", "work", "released"}, s.steps)
	require.Equal(t, []string{"cluster/orders", "cluster/orders"}, s.locks.joins(), "once for each activity")
}

func TestNestedLockIsPutRightBeforeTheOuterOne(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(30 * time.Second) })
	hook := func(what string) WithLockOption {
		return OnPreempt(func(ctx workflow.Context, p Preemption) error {
			s.step(what + " for " + p.By)
			_, err := execute(ctx, "undo")
			return err
		})
	}
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		err := WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			return workflow.Sleep(ctx, time.Hour)
		}, hook("inner"))
		_, ok := PreemptionOf(err)
		require.True(t, ok, "%v", err)
		return err
	}, hook("outer"))
	requireType(t, ErrTypeLockPreempted, err)
	require.Equal(t, []string{"inner for hotfix", "undo", "outer for hotfix", "undo", "released"}, s.steps)
	require.Equal(t, []bool{true, true}, s.locks.cleanups())
}

func TestLossStopsTheHookOfANestedLock(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(30 * time.Second) })
	s.after(2*time.Minute, func() {
		i := lostBecause(s.reference(7), "taken by force")
		s.signal(holdSignal{State: stateLost, Reference: s.reference(7), Interruption: &i})
		s.fail(i.error(nil, true))
	})
	begun := s.env.Now()
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			return workflow.Sleep(ctx, time.Hour)
		}, OnPreempt(func(ctx workflow.Context, _ Preemption) error { return workflow.Sleep(ctx, time.Hour) }))
	})
	requireType(t, ErrTypeLockLost, err)
	require.Less(t, s.env.Now().Sub(begun), 3*time.Minute)
}

func TestNestedLockThatTheOuterOneCannotBeIsRefused(t *testing.T) {
	shared, long := wanted, wanted
	shared.Mode, long.CleanupTimeout = priority.Shared, 2*time.Minute
	hook := OnPreempt(func(workflow.Context, Preemption) error { return nil })
	for name, c := range map[string]struct {
		outer, inner lockguard.Requirement
		want         string
	}{
		"Mode":    {shared, wanted, "shared"},
		"Cleanup": {wanted, long, "lengthen it there"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) { s.grant(7) })
			err := s.run(func(ctx workflow.Context) error {
				return WithLock(ctx, c.outer, func(ctx workflow.Context, _ WorkflowHold) error {
					return WithLock(ctx, c.inner, func(workflow.Context, WorkflowHold) error { return errors.New("has run") }, hook)
				})
			})
			requireType(t, ErrTypeLockConfiguration, err)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestWhatPreemptsTheOuterLockLetsTheInnerOneBePutRight(t *testing.T) {
	for name, first := range map[string]bool{"TheKeeperTells": false, "AnActivityKnowsFirst": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) {
				scope := s.input().Requirement.Scope
				r := s.reference(lockguard.Token(6 + len(s.inputs)))
				r.Scope, r.Hold = scope, map[bool]string{true: "hold", false: "inner"}[scope == wanted.Scope]
				s.locks.admit(r)
				s.send(holdSignal{State: stateGranted, Epoch: 1, Reference: r})
			})
			outer := s.asks(10 * time.Second)
			outer.Epoch = 2
			s.knowsFirst("hold")
			names := func() string { return signalPrefix + s.inputs[0].Name }
			if !first {
				s.after(time.Minute, func() { s.env.SignalWorkflow(names(), outer) })
			}
			inner := wanted
			inner.Scope = "cluster/users"
			err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
				return WithLock(ctx, inner, func(ctx workflow.Context, _ WorkflowHold) error {
					if first {
						return workflow.ExecuteActivity(ctx, "preempted").Get(ctx, nil)
					}
					return workflow.Sleep(ctx, time.Hour)
				}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
					require.Equal(t, 10*time.Second, p.Deadline.Sub(workflow.Now(ctx)), "no more than the outer one has")
					require.Contains(t, p.Message, "hotfix")
					_, err := execute(ctx, "undo")
					return err
				}))
			})
			requireType(t, ErrTypeLockPreempted, err)
			require.Equal(t, []string{"undo", "released", "released"}, s.steps)
			cleanups := s.locks.cleanups()
			require.Equal(t, []bool{true, true}, cleanups[len(cleanups)-2:], "of both locks")
		})
	}
}

func TestSagaOfTheBodyIsForCleanup(t *testing.T) {
	// given a body that puts things right itself, in a context that does not end
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.knowsFirst("hold")
	err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
		err := workflow.ExecuteActivity(ctx, "preempted").Get(ctx, nil)
		require.ErrorIs(t, ctx.Err(), workflow.ErrCanceled, "the workflow knows by now")
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		_, undone := execute(ctx, "undo")
		return errors.Join(err, undone)
	})
	requireType(t, ErrTypeLockPreempted, err)
	require.Equal(t, []string{"undo", "released"}, s.steps)
	require.Equal(t, []bool{false, true}, s.locks.cleanups())
}

func TestLossThatAnActivityFindsFirstHasTheLockAskedForAnew(t *testing.T) {
	// given a keeper that does not know of the loss, or finds the lock there again
	s := newScene(t, func(s *scene) { s.grant(lockguard.Token(6 + len(s.inputs))) })
	s.env.RegisterActivityWithOptions(func(context.Context) error {
		i := lostBecause(s.reference(7), "an activity has found it so")
		return i.error(nil, true)
	}, activity.RegisterOptions{Name: "lost"})
	var tokens []lockguard.Token
	err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
		tokens = append(tokens, hold.Token())
		if len(tokens) > 1 {
			return nil
		}
		return workflow.ExecuteActivity(ctx, "lost").Get(ctx, nil)
	}, AgainAfterLoss())

	// then that one is let go, and another one asks
	require.NoError(t, err)
	require.Equal(t, []lockguard.Token{7, 8}, tokens)
	require.NotEqual(t, s.inputs[0].Name, s.inputs[1].Name)
	require.Equal(t, s.inputs[0].Name, s.releases[0].Name)
}

func TestLossThatIsToldAgainDoesNotCount(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	lost := func() {
		i := lostBecause(s.reference(7), "the session is over")
		s.signal(holdSignal{State: stateLost, Reference: s.reference(7), Interruption: &i})
	}
	s.after(1*time.Minute, lost)
	s.after(2*time.Minute, lost) // by the next attempt of the keeper
	s.after(3*time.Minute, func() {
		r := s.reference(8)
		s.locks.admit(r)
		s.signal(holdSignal{State: stateRegranted, Reference: r})
	})
	runs := 0
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		if runs++; runs > 1 {
			return nil
		}
		return workflow.Sleep(ctx, time.Hour)
	}, AgainAfterLoss())
	require.NoError(t, err)
	require.Equal(t, 2, runs)
}

func TestWhatAStrangerSignalsIsLeftAlone(t *testing.T) {
	for _, held := range []bool{false, true} {
		s := newScene(t, func(s *scene) {
			if held {
				s.grant(7)
			}
		})
		s.after(time.Minute, func() {
			s.env.SignalWorkflow(signalPrefix+s.input().Name, "garbage")
			s.env.SignalWorkflow(signalPrefix+s.input().Name, 7)
		})
		s.after(2*time.Minute, func() {
			if held {
				i := lostBecause(s.reference(7), "the keeper has ended")
				s.fail(i.error(nil, true))
				return
			}
			s.env.CancelWorkflow()
		})
		err := s.under(sleeps)
		if held {
			requireType(t, ErrTypeLockLost, err)
			continue
		}
		require.True(t, sdk.IsCanceledError(err), "%v", err)
	}
}

func TestLockIsTakenOverAlsoWhenNoWorkerWasThereForAWhile(t *testing.T) {
	for name, again := range map[string]lockguard.Token{"ItIsThereYet": 7, "SomebodyElseHasHadIt": 8} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) {
				if len(s.inputs) == 1 {
					s.signal(holdSignal{State: stateGranted, Reference: s.reference(7)})
					return
				}
				s.epoch = 0 // it begins anew
				s.locks.admit(s.reference(again))
				s.signal(holdSignal{State: stateGranted, Reference: s.reference(again), Continued: again == 7})
			})
			s.after(time.Minute, func() { s.fail(sdk.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)) })
			limited := wanted
			limited.AcquireTimeout = new(time.Second)
			err := s.run(func(ctx workflow.Context) error {
				return WithLock(ctx, limited, func(ctx workflow.Context, hold WorkflowHold) error {
					if err := workflow.Sleep(ctx, time.Hour); err != nil {
						return err
					}
					require.False(t, hold.Continued())
					_, err := execute(ctx, "work")
					return err
				})
			})
			require.Len(t, s.inputs, 2)
			require.Nil(t, s.inputs[0].Adopt)
			require.Equal(t, s.reference(7), *s.inputs[1].Adopt)
			if again > 7 {
				requireType(t, ErrTypeLockLost, err)
				require.Equal(t, []string{"released"}, s.steps)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"work", "released"}, s.steps)
		})
	}
}
