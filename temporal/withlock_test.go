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
	"github.com/lockkeeper/lockkeeper/priority"
)

// wanted is a requirement with a minute of cleanup, and with what could be lost in a history.
var wanted = lockguard.Requirement{
	Scope: "cluster/orders", Terms: priority.Terms{
		Priority: 5, CleanupTimeout: time.Minute,
		WaitingTimeout: new(time.Duration), Forceful: true,
	},
	Labels: map[string]string{"team": "orders"},
}

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
	s.env.SetWorkerOptions(worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&holdInterceptor{locks: s.locks}}, DeadlockDetectionTimeout: time.Minute, // a busy machine is slow
	})
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

// knowsFirst registers an activity that fails because a lock of its workflow was asked for, with 10s of grace, while the
// workflow has not been told yet.
func (s *scene) knowsFirst(hold string) {
	s.env.RegisterActivityWithOptions(func(context.Context) error {
		i := *s.asks(10 * time.Second).Interruption
		i.Hold = hold
		return i.error(errors.New("stopped"), true)
	}, activity.RegisterOptions{Name: "preempted"})
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

// under runs a workflow whose only function is under the lock.
func (s *scene) under(body func(ctx workflow.Context, hold WorkflowHold) error, options ...WithLockOption) error {
	s.t.Helper()
	return s.run(func(ctx workflow.Context) error { return WithLock(ctx, wanted, body, options...) })
}

// sleeps is a body that has time.
func sleeps(ctx workflow.Context, _ WorkflowHold) error { return workflow.Sleep(ctx, time.Hour) }

// undoes is a hook that puts things right.
func undoes(check func(ctx workflow.Context, p Preemption)) WithLockOption {
	return OnPreempt(func(ctx workflow.Context, p Preemption) error {
		check(ctx, p)
		_, err := execute(ctx, "undo")
		return err
	})
}

// hook is a hook that says that it runs.
func (s *scene) hook() WithLockOption {
	return OnPreempt(func(workflow.Context, Preemption) error { s.step("hook"); return nil })
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
	err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
		for range 2 {
			token, err := execute(ctx, "work")
			require.NoError(t, err)
			require.Equal(t, hold.Token(), token)
		}
		_, interrupted := hold.Interrupted()
		require.False(t, interrupted)
		return nil
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

func TestActivityThatIsLeftBehindDoesNotRunWithoutTheLock(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.release = func(in releaseInput) (lockguard.Reference, error) {
		s.locks.lose("hold")
		return in.Reference, nil
	}
	err := s.run(func(ctx workflow.Context) error {
		late, settle := workflow.NewFuture(ctx)
		if err := WithLock(ctx, wanted, func(ctx workflow.Context, _ WorkflowHold) error {
			workflow.Go(ctx, func(ctx workflow.Context) {
				_ = workflow.Sleep(ctx, time.Hour) // a second might pass while the release is under way
				settle.SetError(workflow.ExecuteActivity(ctx, "work").Get(ctx, nil))
			})
			return nil
		}); err != nil {
			return err
		}
		return late.Get(ctx, nil)
	})
	requireType(t, ErrTypeLockLost, err)
	require.Equal(t, []string{"released"}, s.steps)
}

func TestLocalActivityIsInScope(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
		var token lockguard.Token
		err := workflow.ExecuteLocalActivity(ctx, "work").Get(ctx, &token)
		require.Equal(t, hold.Token(), token)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"work", "released"}, s.steps)
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
			var got time.Duration
			s.env.RegisterActivityWithOptions(func(ctx context.Context) error {
				got = activity.GetInfo(ctx).ScheduleToCloseTimeout
				return nil
			}, activity.RegisterOptions{Name: "clean"})
			err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
				_ = workflow.Sleep(ctx, time.Hour)
				detached, _ := workflow.NewDisconnectedContext(ctx)
				_ = workflow.Sleep(detached, 10*time.Second) // of the grace
				return ctx.Err()
			}, OnPreempt(func(ctx workflow.Context, p Preemption) error {
				_, err := execute(workflow.WithActivityOptions(ctx, c.options), "clean")
				return err
			}))
			requireType(t, ErrTypeLockPreempted, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestBodyThatHasFinishedInSpiteOfThePreemptionHasSucceeded(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(30 * time.Second) })
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		_ = workflow.Sleep(ctx, time.Hour)
		return nil
	}, s.hook())
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
			err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
				s.step("body")
				return nil
			}, s.hook())
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
	err := s.under(func(ctx workflow.Context, hold WorkflowHold) error {
		require.NoError(t, workflow.Sleep(ctx, time.Hour))
		_, interrupted := hold.Interrupted()
		require.False(t, interrupted)
		return nil
	})
	require.NoError(t, err)
}

func TestActivityThatHearsOfThePreemptionFirstCountsAsIt(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.knowsFirst("hold")
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		_, err := execute(ctx, "preempted")
		return err
	}, undoes(func(ctx workflow.Context, p Preemption) {
		require.Equal(t, "hotfix", p.By)
		require.Equal(t, 10*time.Second, p.Deadline.Sub(workflow.Now(ctx)))
	}))
	requireType(t, ErrTypeLockPreempted, err)
	require.Equal(t, []string{"undo", "released"}, s.steps)
}

func TestPreemptionOfAnotherLockIsAFailureOfTheBody(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.knowsFirst("another")
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		_, err := execute(ctx, "preempted")
		return err
	}, s.hook())
	require.Error(t, err)
	require.Equal(t, []string{"released"}, s.steps)
}

func TestKeeperThatEndsForWhateverReasonIsALoss(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.fail(sdk.NewNonRetryableApplicationError("gone", "Whatever", nil)) })
	requireType(t, ErrTypeLockLost, s.under(sleeps))
}

func TestLossDuringCleanupCancelsIt(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() { s.preempt(10 * time.Second) })
	s.after(2*time.Minute, func() { s.fail(lostBecause(s.reference(7), "taken").error(nil, true)) })
	err := s.under(sleeps,
		OnPreempt(func(ctx workflow.Context, p Preemption) error {
			err := workflow.Sleep(ctx, time.Hour)
			require.True(t, sdk.IsCanceledError(err))
			s.step("cleanup is logged")
			return err
		}))
	requireType(t, ErrTypeLockPreempted, err)
	require.ErrorContains(t, err, "cleanup")
	require.Equal(t, []string{"cleanup is logged"}, s.steps)
}

func TestKeeperThatBeginsAnewAfterAResetIsALoss(t *testing.T) {
	s := newScene(t, func(s *scene) { s.grant(7) })
	s.after(time.Minute, func() {
		r := lockguard.Reference{Scope: "cluster/orders", Hold: "hold of the new run", ID: "guid", Token: 12}
		s.send(holdSignal{State: stateGranted, Epoch: 1, Reference: r})
	})
	err := s.under(sleeps)
	requireType(t, ErrTypeLockLost, err)
	require.ErrorContains(t, err, "reset")
	require.Equal(t, lockguard.Token(12), s.releases[0].Reference.Token, "what the new run holds is given away")
}

func TestReleaseOnCloseReleasesForAnyRequest(t *testing.T) {
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
	err := s.under(func(ctx workflow.Context, _ WorkflowHold) error {
		return workflow.NewContinueAsNewError(ctx, "next")
	})
	require.True(t, workflow.IsContinueAsNewError(errors.Unwrap(err)) || workflow.IsContinueAsNewError(err), "%v", err)
	require.Equal(t, []string{"released"}, s.steps)
	require.Zero(t, s.releases[0].Keep)
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
		"Empty":          {wanted, nil, nil, "body"},
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
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
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
