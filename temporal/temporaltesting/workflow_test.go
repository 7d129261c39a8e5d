package temporaltesting_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/temporal/temporaltesting"
)

// orders is the lock of the workflows here.
var orders = lockguard.Requirement{Scope: "orders", Terms: priority.Terms{Priority: 5, CleanupTimeout: 30 * time.Second}}

// A play is a workflow environment, and what happens in it.
type play struct {
	t     *testing.T
	locks *temporaltesting.Locks
	env   *testsuite.TestWorkflowEnvironment

	mu    sync.Mutex
	steps []string
}

func newPlay(t *testing.T, options ...temporal.PluginOption) *play {
	t.Helper()
	p := &play{t: t, locks: temporaltesting.New(t)}
	p.env = p.locks.NewWorkflowEnvironment(options...)
	for _, name := range []string{"work", "undo"} {
		p.env.RegisterActivityWithOptions(func(ctx context.Context) (lockguard.Token, error) {
			hold, ok := lockguard.FromContext(ctx)
			if !ok {
				p.step(name + " without")
				return 0, nil
			}
			p.step(name)
			return hold.Token(), context.Cause(ctx)
		}, activity.RegisterOptions{Name: name})
	}
	return p
}

func (p *play) step(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, name)
}

func (p *play) happened() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}

// after lets something happen, in the time of the workflow.
func (p *play) after(d time.Duration, f func()) { p.env.RegisterDelayedCallback(f, d) }

// run runs a workflow that is one function.
func (p *play) run(f func(ctx workflow.Context) error) error {
	p.t.Helper()
	p.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return f(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &sdk.RetryPolicy{MaximumAttempts: 1}}))
	})
	require.True(p.t, p.env.IsWorkflowCompleted())
	return p.env.GetWorkflowError()
}

// under runs a workflow whose only function is under the lock.
func (p *play) under(body func(ctx workflow.Context, hold temporal.WorkflowHold) error, options ...temporal.WithLockOption) error {
	p.t.Helper()
	return p.run(func(ctx workflow.Context) error { return temporal.WithLock(ctx, orders, body, options...) })
}

func execute(ctx workflow.Context, name string) (lockguard.Token, error) {
	var token lockguard.Token
	err := workflow.ExecuteActivity(ctx, name).Get(ctx, &token)
	return token, err
}

// sleeps is a body that has time.
func sleeps(ctx workflow.Context, _ temporal.WorkflowHold) error {
	return workflow.Sleep(ctx, time.Hour)
}

func requireType(t *testing.T, want string, err error) *sdk.ApplicationError {
	t.Helper()
	var application *sdk.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, want, application.Type(), "%v", err)
	return application
}

func TestActivityThatDeclaresTheLockOfItsWorkflowHasItAlready(t *testing.T) {
	p := newPlay(t, temporal.Declare("work", temporal.Lock{Requirement: lockguard.Requirement{Scope: "orders"}}))
	err := p.run(func(ctx workflow.Context) error {
		err := temporal.WithLock(ctx, orders, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
			require.Equal(t, hold.Token(), p.locks.Token("orders"))
			token, err := execute(ctx, "work")
			require.Equal(t, hold.Token(), token)
			return err
		})
		token, alone := execute(ctx, "work")
		require.NotZero(t, token, "by itself it takes the lock")
		return errors.Join(err, alone)
	})
	require.NoError(t, err)
	require.Equal(t, []string{"work", "work"}, p.happened())
	p.locks.AwaitFree("orders")
}

func TestWorkflowWaitsInItsOwnTime(t *testing.T) {
	// given a lock that is busy for an hour
	p := newPlay(t)
	rival := p.locks.Hold(orders)
	p.after(time.Hour, rival.Release)

	// when a workflow wants it, and may wait for longer
	patient := orders
	patient.AcquireTimeout = new(2 * time.Hour)
	var waited time.Duration
	err := p.run(func(ctx workflow.Context) error {
		began := workflow.Now(ctx)
		return temporal.WithLock(ctx, patient, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
			waited = workflow.Now(ctx).Sub(began)
			return nil
		})
	})

	// then it has it after that hour, which took no time
	require.NoError(t, err)
	require.Equal(t, time.Hour, waited)
}

func TestWorkflowGivesUpWaitingInItsOwnTime(t *testing.T) {
	p := newPlay(t)
	rival := p.locks.Hold(orders)
	impatient := orders
	impatient.AcquireTimeout = new(time.Hour)
	var waited time.Duration
	err := p.run(func(ctx workflow.Context) error {
		began := workflow.Now(ctx)
		err := temporal.WithLock(ctx, impatient, sleeps)
		waited = workflow.Now(ctx).Sub(began)
		return err
	})
	requireType(t, temporal.ErrTypeLockWaitTimeout, err)
	require.ErrorContains(t, err, `"rival" holding`)
	require.Equal(t, time.Hour, waited)
	rival.Release()
	p.locks.AwaitFree("orders")
}

func TestWorkflowIsPreemptedWhileAnActivityRuns(t *testing.T) {
	p := newPlay(t)
	p.locks.During("copy", func() { p.locks.Preempt(lockguard.Requirement{Scope: "orders"}) })
	p.env.RegisterActivityWithOptions(func(ctx context.Context) error {
		var preempted *lockguard.PreemptedError
		require.ErrorAs(t, context.Cause(ctx), &preempted, "the activity hears it before its workflow does")
		p.step("copy ends")
		return ctx.Err()
	}, activity.RegisterOptions{Name: "copy"})
	err := p.under(func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		_, err := execute(ctx, "copy")
		return err
	}, temporal.OnPreempt(func(ctx workflow.Context, _ temporal.Preemption) error {
		_, err := execute(ctx, "undo")
		return err
	}))
	requireType(t, temporal.ErrTypeLockPreempted, err)
	require.Equal(t, []string{"copy ends", "undo"}, p.happened(), "the workflow waits for the activity")
}

func TestWorkflowLosesItsLock(t *testing.T) {
	for name, lose := range map[string]func(l *temporaltesting.Locks){
		"Broken":  func(l *temporaltesting.Locks) { l.Lose("orders") },
		"Expired": func(l *temporaltesting.Locks) { l.Expire() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t)
			p.after(time.Minute, func() { lose(p.locks) })
			var worked time.Duration
			err := p.under(func(ctx workflow.Context, hold temporal.WorkflowHold) error {
				began := workflow.Now(ctx)
				err := sleeps(ctx, hold)
				worked = workflow.Now(ctx).Sub(began)
				return err
			}, temporal.OnPreempt(func(ctx workflow.Context, why temporal.Preemption) error {
				require.False(t, why.Held())
				_, err := execute(ctx, "undo")
				return err
			}))
			requireType(t, temporal.ErrTypeLockLost, err)
			require.Equal(t, []string{"undo without"}, p.happened())
			require.Equal(t, time.Minute, worked)
		})
	}
}

func TestWorkflowGetsALostLockAgain(t *testing.T) {
	p := newPlay(t)
	p.after(time.Minute, p.locks.Expire)
	var tokens []lockguard.Token
	var began []time.Time
	err := p.under(func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		tokens, began = append(tokens, hold.Token()), append(began, workflow.Now(ctx))
		if len(tokens) > 1 {
			_, err := execute(ctx, "work")
			return err
		}
		return sleeps(ctx, hold)
	}, temporal.AgainAfterLoss())
	require.NoError(t, err)
	require.Len(t, tokens, 2)
	require.Greater(t, tokens[1], tokens[0])
	require.Equal(t, time.Minute, began[1].Sub(began[0]), "at once, in the time of the workflow")
	require.Equal(t, []string{"work"}, p.happened())
}

func TestWorkflowCancelledWhileItWaitsLeavesTheQueue(t *testing.T) {
	p := newPlay(t)
	rival := p.locks.Hold(orders)
	p.after(time.Minute, p.env.CancelWorkflow)
	err := p.run(func(ctx workflow.Context) error { return temporal.WithLock(ctx, orders, sleeps) })
	require.True(t, sdk.IsCanceledError(err), "%v", err)
	rival.Release()
	p.locks.AwaitFree("orders")
}

// child is a workflow that needs the lock for an hour.
func (p *play) child(ctx workflow.Context, name string) error {
	return temporal.WithLock(ctx, orders, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		p.step(name + " begins")
		defer func() { p.step(name + " ends") }()
		return workflow.Sleep(ctx, time.Hour)
	})
}

func TestChildrenTakeTurns(t *testing.T) {
	p := newPlay(t)
	p.env.RegisterWorkflowWithOptions(p.child, workflow.RegisterOptions{Name: "child"})
	var took time.Duration
	err := p.run(func(ctx workflow.Context) error {
		began := workflow.Now(ctx)
		defer func() { took = workflow.Now(ctx).Sub(began) }()
		a := workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, "a"), "child", "a")
		b := workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, "b"), "child", "b")
		return errors.Join(a.Get(ctx, nil), b.Get(ctx, nil))
	})
	require.NoError(t, err)
	steps := p.happened()
	require.Len(t, steps, 4)
	require.Equal(t, steps[0][:1], steps[1][:1], "%v", steps)
	require.Equal(t, 2*time.Hour, took)
}

func TestNextRunTakesOverWhatIsKeptForIt(t *testing.T) {
	p := newPlay(t)
	var first, second lockguard.Token
	err := p.under(func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		first = hold.Token()
		return hold.ContinueAsNew(ctx, "next")
	})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, err, &next)

	env := p.locks.NewWorkflowEnvironment()
	env.SetHeader(next.Header)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return temporal.WithLock(ctx, orders, func(_ workflow.Context, hold temporal.WorkflowHold) error {
			second = hold.Token()
			require.True(t, hold.Continued())
			return nil
		})
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, first, second)
}

func TestMocksWithFunctionsRunUnderTheLockAndThoseWithValuesDoNotRun(t *testing.T) {
	for name, mocked := range map[string]func(ran *bool) any{
		"Value": func(*bool) any { return lockguard.Token(0) },
		"Function": func(ran *bool) any {
			return func(ctx context.Context) (lockguard.Token, error) {
				hold, ok := lockguard.FromContext(ctx)
				require.True(t, ok)
				*ran = true
				return hold.Token(), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t)
			ran, during := false, false
			p.locks.During("work", func() { during = true })
			if call := p.env.OnActivity("work", mock.Anything); name == "Value" {
				call.Return(mocked(&ran), nil)
			} else {
				call.Return(mocked(&ran))
			}
			err := p.under(func(ctx workflow.Context, hold temporal.WorkflowHold) error {
				token, err := execute(ctx, "work")
				require.Equal(t, name == "Function", token == hold.Token())
				return err
			})
			require.NoError(t, err)
			require.Equal(t, name == "Function", ran)
			require.Equal(t, name == "Function", during)
		})
	}
}
