package temporal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// wanted is a requirement with a minute of cleanup.
var wanted = lockguard.Requirement{Scope: "cluster/orders", Priority: 5, CleanupTimeout: time.Minute}

// A scene is a workflow in the SDK's test environment, with a keeper that says
// what the test wants.
type scene struct {
	t     *testing.T
	env   *testsuite.TestWorkflowEnvironment
	locks *fakeLocks

	// keep is called when a keeper begins.
	keep func(s *scene)

	mu       sync.Mutex
	inputs   []holderInput
	token    []byte // of the holder activity
	epoch    int64
	releases []releaseInput
	steps    []string // of the workflow and of its activities
	release  func(in releaseInput) (lockguard.Reference, error)
}

func newScene(t *testing.T, keep func(s *scene)) *scene {
	t.Helper()
	s := &scene{t: t, locks: newFakeLocks(), keep: keep}
	suite := new(testsuite.WorkflowTestSuite)
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	s.env = suite.NewTestWorkflowEnvironment()
	s.env.SetTestTimeout(30 * time.Second)
	s.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&holdInterceptor{locks: s.locks}}})
	s.env.RegisterActivityWithOptions(func(ctx context.Context, in holderInput) error {
		s.mu.Lock()
		s.inputs = append(s.inputs, in)
		s.token = activity.GetInfo(ctx).TaskToken
		s.mu.Unlock()
		s.keep(s)
		return activity.ErrResultPending
	}, activity.RegisterOptions{Name: HolderActivity})
	s.release = func(in releaseInput) (lockguard.Reference, error) { return in.Reference, nil }
	s.env.RegisterActivityWithOptions(func(_ context.Context, in releaseInput) (lockguard.Reference, error) {
		s.mu.Lock()
		s.releases = append(s.releases, in)
		s.mu.Unlock()
		s.step("released")
		return s.release(in)
	}, activity.RegisterOptions{Name: ReleaseActivity})
	for _, name := range []string{"work", "undo"} {
		s.env.RegisterActivityWithOptions(func(ctx context.Context) (lockguard.Token, error) { return s.work(ctx, name) },
			activity.RegisterOptions{Name: name})
	}
	return s
}

// work is an activity that says under which token it runs.
func (s *scene) work(ctx context.Context, name string) (lockguard.Token, error) {
	hold := s.locks.carried(ctx)
	if hold == nil {
		s.step(name + " without")
		return 0, nil
	}
	s.step(name)
	return hold.Reference().Token, ctx.Err()
}

func (s *scene) step(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, name)
}

func (s *scene) input() holderInput {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inputs[len(s.inputs)-1]
}

// reference is that of the hold with a token.
func (s *scene) reference(token lockguard.Token) lockguard.Reference {
	return lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "guid", Token: token}
}

// signal tells the workflow the next thing.
func (s *scene) signal(news holdSignal) {
	s.mu.Lock()
	s.epoch++
	news.Epoch = s.epoch
	s.mu.Unlock()
	s.send(news)
}

func (s *scene) send(news holdSignal) { s.env.SignalWorkflow(signalPrefix+s.input().Name, news) }

// grant lets the workflow have the lock.
func (s *scene) grant(token lockguard.Token) {
	r := s.reference(token)
	s.locks.admit(r)
	s.signal(holdSignal{State: stateGranted, Reference: r})
}

func (s *scene) asks(grace time.Duration) holdSignal {
	i := interruption{Hold: "hold", Preemption: Preemption{
		Reason: PreemptionOutranked, Scope: "cluster/orders", Token: 7, By: "hotfix", Priority: 9, Forceful: true, Grace: grace, Message: "preempted by hotfix",
	}}
	return holdSignal{State: statePreempting, Reference: s.reference(7), Interruption: &i}
}

func (s *scene) preempt(grace time.Duration) { s.signal(s.asks(grace)) }

// fail ends the keeper.
func (s *scene) fail(err error) {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	require.NoError(s.t, s.env.CompleteActivity(token, nil, err))
}

// after does something later, in the time of the workflow.
func (s *scene) after(d time.Duration, f func()) { s.env.RegisterDelayedCallback(f, d) }

// run runs a workflow that is one function.
func (s *scene) run(f func(ctx workflow.Context) error) error {
	s.t.Helper()
	s.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return f(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1}}))
	})
	require.True(s.t, s.env.IsWorkflowCompleted())
	return s.env.GetWorkflowError()
}

func execute(ctx workflow.Context, name string) (lockguard.Token, error) {
	var token lockguard.Token
	err := workflow.ExecuteActivity(ctx, name).Get(ctx, &token)
	return token, err
}

func requireType(t *testing.T, want string, err error) *sdk.ApplicationError {
	t.Helper()
	var application *sdk.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, want, application.Type(), "%v", err)
	return application
}

func TestWorkflowRunsItsActivitiesUnderTheLockAndGivesItAway(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })

	// when a workflow does two things under its lock
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			for range 2 {
				token, err := execute(ctx, "work")
				require.NoError(t, err)
				require.Equal(t, hold.Token(), token)
			}
			_, interrupted := hold.Interrupted()
			require.False(t, interrupted)
			return nil
		})
	})

	// then they have run under it, and it was released after them
	require.NoError(t, err)
	require.Equal(t, []string{"work", "work", "released"}, s.steps)
	require.Equal(t, wanted, s.input().Requirement)
	require.Equal(t, s.reference(7), s.releases[0].Reference)
	require.Equal(t, s.input().Name, s.releases[0].Name)
}

func TestActivityOutsideOfTheBodyIsNotInScope(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	err := s.run(func(ctx workflow.Context) error {
		err := WithLock(ctx, wanted, func(inner workflow.Context, _ WorkflowHold) error {
			_, err := execute(ctx, "work") // the context of the caller
			return err
		})
		require.NoError(t, err)
		_, err = execute(ctx, "work")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"work without", "released", "work without"}, s.steps)
}

func TestLocalActivityIsInScope(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
			var token lockguard.Token
			err := workflow.ExecuteLocalActivity(ctx, "work").Get(ctx, &token)
			require.Equal(t, hold.Token(), token)
			return err
		})
	})
	require.NoError(t, err)
	require.Equal(t, []string{"work", "released"}, s.steps)
}

func TestFailureOfTheBodyIsReturnedAndTheLockReleased(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	failed := errors.New("disk full")
	err := s.run(func(ctx workflow.Context) error {
		err := WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { return failed },
			OnPreempt(func(workflow.Context, Preemption) error { s.step("hook"); return nil }))
		require.ErrorIs(t, err, failed)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"released"}, s.steps)
}

func TestPreemptionCancelsTheBodyAndPutsThingsRightUnderTheLock(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(30 * time.Second) })

	// given a body that waits for something, when somebody asks for the lock
	var got Preemption
	err := s.run(func(ctx workflow.Context) error {
		err := WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			err := workflow.Sleep(ctx, time.Hour)
			s.step("body ends")
			why, interrupted := hold.Interrupted()
			require.True(t, interrupted)
			require.Equal(t, "hotfix", why.By)
			return err
		}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
			got = p
			require.Equal(t, 30*time.Second, p.Deadline.Sub(workflow.Now(ctx)))
			require.True(t, p.Held())
			token, err := execute(ctx, "undo")
			require.Equal(t, p.Token, token)
			return err
		}))

		// then the hook has run under the lock, and the error says who it was
		p, ok := PreemptionOf(err)
		require.True(t, ok)
		require.Equal(t, 9, p.Priority)
		require.ErrorContains(t, errors.Unwrap(err), "canceled", "the error of the body")
		require.False(t, sdk.IsCanceledError(err), "the workflow was not")
		return err
	})
	requireType(t, ErrTypeLockPreempted, err)
	require.Equal(t, []string{"body ends", "undo", "released"}, s.steps)
	require.Equal(t, PreemptionOutranked, got.Reason)
	require.True(t, got.Forceful)
	p, ok := PreemptionOf(err)
	require.True(t, ok, "also outside of the workflow: %v", err)
	require.Equal(t, "hotfix", p.By)
	require.Equal(t, []bool{true}, s.locks.cleanups(), "joined for cleanup")
}

func TestCleanupHasWhatIsLeftOfTheGrace(t *testing.T) {
	for _, c := range []struct {
		name        string
		grace, want time.Duration
		options     workflow.ActivityOptions
	}{
		{"Default", 30 * time.Second, 20 * time.Second, workflow.ActivityOptions{StartToCloseTimeout: time.Hour}},
		{"OfTheCaller", 30 * time.Second, time.Hour, workflow.ActivityOptions{ScheduleToCloseTimeout: time.Hour}},
		{"ASecondAtLeast", 5 * time.Second, time.Second, workflow.ActivityOptions{StartToCloseTimeout: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, func(s *scene) { s.grant(7) })
			s.after(time.Minute, func() { s.preempt(c.grace) })
			var got workflow.ActivityOptions
			s.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{
				&optionsRecorder{of: "undo", got: &got}, &holdInterceptor{locks: s.locks}, // whose outbound part comes first
			}})
			err := s.run(func(ctx workflow.Context) error {
				return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
					_ = workflow.Sleep(ctx, time.Hour)
					detached, _ := workflow.NewDisconnectedContext(ctx)
					_ = workflow.Sleep(detached, 10*time.Second) // of the grace
					return ctx.Err()
				}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
					_, err := execute(workflow.WithActivityOptions(ctx, c.options), "undo")
					return err
				}))
			})
			requireType(t, ErrTypeLockPreempted, err)
			require.Equal(t, c.want, got.ScheduleToCloseTimeout)
			require.True(t, got.WaitForCancellation)
		})
	}
}

// optionsRecorder remembers the options of one activity.
type optionsRecorder struct {
	interceptor.WorkerInterceptorBase
	of  string
	got *workflow.ActivityOptions
}

func (r *optionsRecorder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &optionsInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, r}
}

type optionsInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	r *optionsRecorder
}

func (i *optionsInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&optionsOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: outbound}, i.r})
}

type optionsOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	r *optionsRecorder
}

func (o *optionsOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if activityType == o.r.of {
		*o.r.got = workflow.GetActivityOptions(ctx)
	}
	return o.Next.ExecuteActivity(ctx, activityType, args...)
}

func TestBodyThatHasFinishedInSpiteOfThePreemptionHasSucceeded(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(30 * time.Second) })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			_ = workflow.Sleep(ctx, time.Hour)
			return nil
		}, OnPreempt(func(workflow.Context, Preemption) error { s.step("hook"); return nil }))
	})
	require.NoError(t, err)
	require.Equal(t, []string{"released"}, s.steps)
}

func TestPreemptionThatComesBeforeTheBodyIsAnErrorAtOnce(t *testing.T) {
	// the grant and the preemption are known together, or the latter alone
	for name, keep := range map[string]func(s *scene){
		"Both":  func(s *scene) { s.grant(7); s.preempt(time.Second) },
		"Alone": func(s *scene) { s.preempt(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, keep)
			err := s.run(func(ctx workflow.Context) error {
				return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
					s.step("body")
					return nil
				}, OnPreempt(func(workflow.Context, Preemption) error { s.step("hook"); return nil }))
			})
			if name == "Both" && err == nil { // the body was done before
				require.Equal(t, []string{"body", "released"}, s.steps)
				return
			}
			requireType(t, ErrTypeLockPreempted, err)
			require.Equal(t, []string{"released"}, s.steps)
		})
	}
}

func TestSignalsThatAreLateOrToldTwiceDoNotCount(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() {
		s.send(holdSignal{State: stateGranted, Epoch: 1, Reference: s.reference(7)}) // again
		s.send(holdSignal{State: stateLost, Epoch: 9, Reference: s.reference(3)})    // of another grant, before
		s.send(holdSignal{State: statePreempting, Epoch: 0, Reference: s.reference(7), Interruption: s.asks(0).Interruption})
	})
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			require.NoError(t, workflow.Sleep(ctx, time.Hour))
			_, interrupted := hold.Interrupted()
			require.False(t, interrupted)
			return nil
		})
	})
	require.NoError(t, err)
}

func TestActivityThatHearsOfThePreemptionFirstCountsAsIt(t *testing.T) {
	// given an activity that fails because the lock of its workflow was asked for,
	// while the workflow has not been told yet
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.env.RegisterActivityWithOptions(func(context.Context) error {
		return s.asks(10*time.Second).Interruption.error(errors.New("stopped"), true)
	}, activity.RegisterOptions{Name: "preempted"})
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			_, err := execute(ctx, "preempted")
			return err
		}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
			require.Equal(t, "hotfix", p.By)
			require.Equal(t, 10*time.Second, p.Deadline.Sub(workflow.Now(ctx)))
			_, err := execute(ctx, "undo")
			return err
		}))
	})
	requireType(t, ErrTypeLockPreempted, err)
	require.Equal(t, []string{"undo", "released"}, s.steps)
}

func TestPreemptionOfAnotherLockIsAFailureOfTheBody(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.env.RegisterActivityWithOptions(func(context.Context) error {
		other := *s.asks(10 * time.Second).Interruption
		other.Hold = "another"
		return other.error(errors.New("stopped"), true)
	}, activity.RegisterOptions{Name: "preempted"})
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			_, err := execute(ctx, "preempted")
			return err
		}, OnPreempt(func(workflow.Context, Preemption) error { s.step("hook"); return nil }))
	})
	require.Error(t, err)
	require.Equal(t, []string{"released"}, s.steps)
}

func TestLossEndsTheBodyAndPutsThingsRightWithoutTheLock(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() {
		s.locks.lose("hold")
		s.fail(lostBecause(s.reference(7), "session expired").error(nil, true))
	})
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			_ = workflow.Sleep(ctx, time.Hour)
			return nil // it cannot know
		}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
			require.False(t, p.Held())
			_, err := execute(ctx, "undo")
			return err
		}))
	})
	requireType(t, ErrTypeLockLost, err)
	require.ErrorContains(t, err, "session expired")
	require.Equal(t, []string{"undo without"}, s.steps, "there is nothing to release")
}

func TestKeeperThatTimesOutIsALoss(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.fail(sdk.NewNonRetryableApplicationError("gone", "Whatever", nil)) })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error { return workflow.Sleep(ctx, time.Hour) })
	})
	requireType(t, ErrTypeLockLost, err)
}

func TestLossDuringCleanupCancelsIt(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(10 * time.Second) })
	s.after(2*time.Minute, func() { s.fail(lostBecause(s.reference(7), "taken").error(nil, true)) })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error { return workflow.Sleep(ctx, time.Hour) },
			OnPreempt(func(ctx workflow.Context, p Preemption) error {
				err := workflow.Sleep(ctx, time.Hour)
				require.True(t, sdk.IsCanceledError(err))
				s.step("cleanup is told")
				return err
			}))
	})
	requireType(t, ErrTypeLockPreempted, err)
	require.ErrorContains(t, err, "cleanup")
	require.Equal(t, []string{"cleanup is told"}, s.steps)
}

func TestBodyIsRunAgainAfterALossIfThatIsWanted(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() {
		i := lostBecause(s.reference(7), "session expired")
		s.locks.lose("hold")
		s.signal(holdSignal{State: stateLost, Reference: s.reference(7), Interruption: &i})
	})
	s.after(time.Hour, func() {
		s.locks.admit(s.reference(11))
		s.signal(holdSignal{State: stateRegranted, Reference: s.reference(11)})
	})
	var tokens []lockguard.Token
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			token, err := execute(ctx, "work")
			require.NoError(t, err)
			tokens = append(tokens, token)
			if len(tokens) == 1 {
				return workflow.Sleep(ctx, 30*time.Minute)
			}
			return nil
		}, AgainAfterLoss(), OnPreempt(func(ctx workflow.Context, p Preemption) error {
			require.False(t, p.Held())
			s.step("hook")
			return nil
		}))
	})
	require.NoError(t, err)
	require.True(t, s.input().Again)
	require.Equal(t, []lockguard.Token{7, 11}, tokens)
	require.Equal(t, []string{"work", "hook", "work", "released"}, s.steps)
}

func TestKeeperThatBeginsAnewAfterAResetIsALoss(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() {
		r := lockguard.Reference{Scope: "cluster/orders", Hold: "hold of the new run", ID: "guid", Token: 12}
		s.send(holdSignal{State: stateGranted, Epoch: 1, Reference: r})
	})
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error { return workflow.Sleep(ctx, time.Hour) })
	})
	requireType(t, ErrTypeLockLost, err)
	require.ErrorContains(t, err, "reset")
	require.Equal(t, lockguard.Token(12), s.releases[0].Reference.Token, "what the new run holds is given away")
}

func TestCancelledWorkflowPutsThingsRightUnderTheLock(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.env.CancelWorkflow() })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error {
			err := workflow.Sleep(ctx, time.Hour)
			_, interrupted := hold.Interrupted()
			require.False(t, interrupted, "nobody has asked")
			return err
		}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
			require.Equal(t, PreemptionCanceled, p.Reason)
			_, err := execute(ctx, "undo")
			return err
		}))
	})
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	require.Equal(t, []string{"undo", "released"}, s.steps)
}

func TestWorkflowCancelledWhileItWaitsLeavesTheQueue(t *testing.T) {
	s := newScene(t, func(*scene) {})
	s.after(time.Minute, func() { s.env.CancelWorkflow() })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { s.step("body"); return nil })
	})
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	require.Equal(t, []string{"released"}, s.steps)
	require.Empty(t, s.releases[0].Reference.Hold)
}

func TestLockThatIsNotAcquiredSaysWhy(t *testing.T) {
	s := newScene(t, func(s *scene) {})
	s.after(time.Minute, func() { s.fail(failure(ErrTypeLockWaitTimeout, "held by nightly", nil, forGood)) })
	err := s.run(func(ctx workflow.Context) error {
		err := WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { s.step("body"); return nil })
		require.Equal(t, ErrTypeLockWaitTimeout, requireType(t, ErrTypeLockWaitTimeout, err).Type())
		return err
	})
	requireType(t, ErrTypeLockWaitTimeout, err)
	require.Empty(t, s.steps)
}

func TestReleaseOnCloseDoesNothingAfterTheBody(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { return nil }, ReleaseOnClose())
	})
	require.NoError(t, err)
	require.Empty(t, s.steps)
}

func TestReleaseOnCloseReleasesForWhoeverAsks(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(time.Second) })
	err := s.run(func(ctx workflow.Context) error {
		err := WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { return nil }, ReleaseOnClose())
		require.NoError(t, err)
		require.Empty(t, s.steps)
		return workflow.Sleep(ctx, time.Hour)
	})
	require.NoError(t, err)
	require.Equal(t, []string{"released"}, s.steps)
}

func TestContinueAsNewReleasesTheLockUnlessItIsKept(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			return workflow.NewContinueAsNewError(ctx, "next")
		})
	})
	require.True(t, workflow.IsContinueAsNewError(errors.Unwrap(err)) || workflow.IsContinueAsNewError(err), "%v", err)
	require.Equal(t, []string{"released"}, s.steps)
	require.Zero(t, s.releases[0].Keep)
}

func TestContinueAsNewTakesTheKeptLockAlong(t *testing.T) {
	// given a run that continues as new with its lock
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.release = func(in releaseInput) (lockguard.Reference, error) {
		in.Reference.ID = "elsewhere"
		return in.Reference, nil
	}
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, hold WorkflowHold) error { return hold.ContinueAsNew(ctx, "next") })
	})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, err, &next)
	require.Len(t, s.releases, 1, "not released")
	require.Equal(t, keepTime, s.releases[0].Keep)

	// when the next run wants that lock, and then once more
	s2 := newScene(t, func(s *scene) {
		r := s.reference(7)
		s.locks.admit(r)
		s.signal(holdSignal{State: stateGranted, Reference: r, Continued: s.input().Adopt != nil})
	})
	s2.env.SetHeader(next.Header)
	var continued []bool
	err = s2.run(func(ctx workflow.Context) error {
		for range 2 {
			if err := WithLock(ctx, wanted, func(_ workflow.Context, hold WorkflowHold) error {
				continued = append(continued, hold.Continued())
				return nil
			}); err != nil {
				return err
			}
			s2.epoch = 0
		}
		return nil
	})

	// then its keeper is told by what it is kept, once
	require.NoError(t, err)
	require.Equal(t, &lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "elsewhere", Token: 7}, s2.inputs[0].Adopt)
	require.Nil(t, s2.inputs[1].Adopt)
	require.Equal(t, []bool{true, false}, continued)
}

func TestHoldsNest(t *testing.T) {
	s := newScene(t, func(s *scene) {
		scope := s.input().Requirement.Scope
		r := lockguard.Reference{Scope: scope, Hold: "hold of " + scope, ID: "guid", Token: lockguard.Token(len(s.inputs))}
		s.locks.admit(r)
		s.send(holdSignal{State: stateGranted, Epoch: 1, Reference: r})
	})
	inner := lockguard.Requirement{Scope: "cluster/users"}
	err := s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			return WithLock(ctx, inner, func(ctx workflow.Context, _ WorkflowHold) error {
				_, err := execute(ctx, "work")
				return err
			})
		})
	})
	require.NoError(t, err)
	require.Equal(t, []string{"cluster/orders", "cluster/users"}, s.locks.joins())
	require.Equal(t, []string{"work", "released", "released"}, s.steps)
}

func TestWithLockThatCannotBeIsRefused(t *testing.T) {
	body := func(workflow.Context, WorkflowHold) error { return nil }
	hook := func(workflow.Context, Preemption) error { return nil }
	for name, c := range map[string]struct {
		requirement lockguard.Requirement
		body        func(workflow.Context, WorkflowHold) error
		options     []WithLockOption
		want        string
	}{
		"NoScope":        {lockguard.Requirement{}, body, nil, "scope"},
		"NoBody":         {wanted, nil, nil, "body"},
		"HookWithout":    {lockguard.Requirement{Scope: "a"}, body, []WithLockOption{OnPreempt(hook)}, "cleanup_timeout"},
		"NilHook":        {wanted, body, []WithLockOption{OnPreempt(nil)}, "OnPreempt"},
		"TwoHooks":       {wanted, body, []WithLockOption{OnPreempt(hook), OnPreempt(hook)}, "OnPreempt"},
		"ShortHeartbeat": {wanted, body, []WithLockOption{KeptBy(KeeperOptions{HeartbeatTimeout: time.Millisecond})}, "heartbeat_timeout"},
		"NegativeHold":   {wanted, body, []WithLockOption{KeptBy(KeeperOptions{MaxHold: -1})}, "max_hold"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(*scene) {})
			err := s.run(func(ctx workflow.Context) error {
				return WithLock(ctx, c.requirement, c.body, c.options...)
			})
			requireType(t, ErrTypeLockConfiguration, err)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, s.inputs)
		})
	}
}

func TestWithLockWithoutThePluginIsRefused(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { return nil })
	})
	requireType(t, ErrTypeLockConfiguration, env.GetWorkflowError())
	require.ErrorContains(t, env.GetWorkflowError(), "plugin is not installed")
}

func TestUpdateHandlersCanUseWithLock(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	var answered bool
	s.after(time.Minute, func() {
		s.env.UpdateWorkflowNoRejection("migrate", "1", t)
	})
	err := s.run(func(ctx workflow.Context) error {
		done := false
		if err := workflow.SetUpdateHandler(ctx, "migrate", func(ctx workflow.Context) error {
			err := WithLock(ctx, wanted, func(workflow.Context, WorkflowHold) error { return nil })
			answered, done = err == nil, true
			return err
		}); err != nil {
			return err
		}
		return workflow.Await(ctx, func() bool { return done })
	})
	require.NoError(t, err)
	require.True(t, answered)
}

func TestRequirementSurvivesItsWayThroughTheHistory(t *testing.T) {
	limit := 3 * time.Second
	in := holderInput{Name: "1", MaxHold: time.Hour, Requirement: lockguard.Requirement{
		Scope: "cluster/orders", Mode: 0, Labels: map[string]string{"team": "orders"}, AcquireTimeout: &limit, WaitingTimeout: new(time.Duration), Forceful: true,
	}}
	s := newScene(t, func(s *scene) { s.grant(7) })
	require.NoError(t, s.run(func(ctx workflow.Context) error {
		return WithLock(ctx, in.Requirement, func(workflow.Context, WorkflowHold) error { return nil })
	}))
	require.Equal(t, in.Requirement, s.input().Requirement)
}
