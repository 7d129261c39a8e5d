package temporaltesting_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/temporal/temporaltesting"
)

// declared is the lock of the activities here, with a minute to clean up.
func declared(lock temporal.Lock) temporal.PluginOption {
	lock.Scope, lock.CleanupTimeout = "orders", time.Minute
	return temporal.Declare("work", lock)
}

func newActivity(l *temporaltesting.Locks, lock temporal.Lock, work func(ctx context.Context) error) *testsuite.TestActivityEnvironment {
	env := l.NewActivityEnvironment(declared(lock))
	env.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
	return env
}

func TestActivityHasARealLock(t *testing.T) {
	locks := temporaltesting.New(t)
	env := newActivity(locks, temporal.Lock{}, func(ctx context.Context) error {
		hold, ok := lockguard.FromContext(ctx)
		require.True(t, ok)
		require.Equal(t, hold.Token(), locks.Token("orders"))
		require.Equal(t, hold.Info().Requirement.Owner, locks.AwaitHeld("orders").Owner)
		return nil
	})
	var last lockguard.Token
	locks.During("work", func() {
		token := locks.Token("orders")
		require.Greater(t, token, last)
		last = token
	})
	for range 2 { // the plugin starts and stops around each
		_, err := env.ExecuteActivity("work")
		require.NoError(t, err)
		locks.AwaitFree("orders")
	}
	require.NotZero(t, last)
}

func TestActivityWaitsForARival(t *testing.T) {
	locks := temporaltesting.New(t)
	rival := locks.Hold(lockguard.Requirement{Scope: "orders"})
	released := false
	locks.WhenWaiting("orders", func() { released = true; rival.Release() })
	env := newActivity(locks, temporal.Lock{OnBusy: temporal.BusyWait}, func(context.Context) error { return nil })
	_, err := env.ExecuteActivity("work")
	require.NoError(t, err)
	require.True(t, released)
}

func TestActivityFindsItsLockBusy(t *testing.T) {
	locks := temporaltesting.New(t)
	locks.Hold(lockguard.Requirement{Scope: "orders", Owner: "nightly"})
	env := newActivity(locks, temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}}, func(context.Context) error { return nil })
	_, err := env.ExecuteActivity("work")
	requireType(t, temporal.ErrTypeLockBusy, err)
	require.ErrorContains(t, err, "nightly")
}

func TestActivityIsPreempted(t *testing.T) {
	for name, forceful := range map[string]bool{"Politely": false, "ByForce": true} {
		t.Run(name, func(t *testing.T) {
			// given an activity that cleans up
			locks := temporaltesting.New(t)
			var rival *temporaltesting.Rival
			var before lockguard.Token
			cleaned := false
			env := newActivity(locks, temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{Priority: 5}}, Cleanup: func(ctx context.Context) error {
				hold, _ := lockguard.FromContext(ctx)
				cleaned = hold.Check() == nil
				return nil
			}}, func(ctx context.Context) error {
				require.Error(t, ctx.Err(), "it has been told")
				why, ok := errors.AsType[*lockguard.PreemptedError](context.Cause(ctx))
				require.True(t, ok)
				require.Equal(t, "rival", why.By)
				require.EqualValues(t, 6, why.Priority)
				require.Equal(t, forceful, why.Forceful)
				return ctx.Err()
			})

			// when somebody more important asks for its lock
			locks.During("work", func() {
				before = locks.Token("orders")
				rival = locks.Preempt(lockguard.Requirement{Scope: "orders", Terms: priority.Terms{Forceful: forceful}})
			})
			_, err := env.ExecuteActivity("work")

			// then it has cleaned up under the lock, which the rival has now
			requireType(t, temporal.ErrTypeLockPreempted, err)
			require.True(t, cleaned)
			token := rival.AwaitAcquired()
			rival.Release()
			locks.AwaitFree("orders")
			require.Greater(t, token, before)
		})
	}
}

func TestActivityIsPreemptedAtAnyTime(t *testing.T) {
	locks := temporaltesting.New(t)
	env := newActivity(locks, temporal.Lock{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	locks.WhenHeld("orders", func() { locks.Preempt(lockguard.Requirement{Scope: "orders"}).Release() })
	_, err := env.ExecuteActivity("work")
	requireType(t, temporal.ErrTypeLockPreempted, err)
	locks.AwaitFree("orders") // the rival, too, as soon as it had it
}

func TestActivityLosesItsLock(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(l *temporaltesting.Locks)
		want lock.LossReason
	}{
		"Broken":  {func(l *temporaltesting.Locks) { l.Lose("orders") }, lock.LossBroken},
		"Expired": {(*temporaltesting.Locks).Expire, lock.LossSession},
	} {
		t.Run(name, func(t *testing.T) {
			locks := temporaltesting.New(t)
			locks.During("work", func() { c.lose(locks) })
			env := newActivity(locks, temporal.Lock{}, func(ctx context.Context) error {
				lost, ok := errors.AsType[*lockguard.LostError](context.Cause(ctx))
				require.True(t, ok, "%v", context.Cause(ctx))
				require.Equal(t, c.want, lost.Reason)
				return ctx.Err()
			})
			_, err := env.ExecuteActivity("work")
			failure := requireType(t, temporal.ErrTypeLockLost, err)
			require.False(t, failure.NonRetryable())
			require.Equal(t, sdk.ApplicationErrorCategoryBenign, failure.Category())
		})
	}
}

func TestRivalsSurviveTheSessionOfTheWorker(t *testing.T) {
	locks := temporaltesting.New(t)
	rival := locks.Hold(lockguard.Requirement{Scope: "users"})
	locks.Expire()
	token := rival.AwaitAcquired()
	locks.Expire()
	try := lockguard.Requirement{Scope: "users", Terms: priority.Terms{AcquireTimeout: new(time.Duration)}}
	err := locks.Guard().Do(t.Context(), try, func(context.Context) error { return nil })
	require.ErrorAs(t, err, new(*lock.NotAcquiredError), "token %d", token)
	rival.Release()
	rival.Release()
	require.NoError(t, locks.Guard().Do(t.Context(), try, func(context.Context) error { return nil }))
}

func TestEnvironmentOfASuiteKeepsItsOptions(t *testing.T) {
	locks := temporaltesting.New(t)
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	type key struct{}
	locks.SetUpActivities(env, worker.Options{BackgroundActivityContext: context.WithValue(t.Context(), key{}, "ours")}, declared(temporal.Lock{}))
	env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		_, ok := lockguard.FromContext(ctx)
		require.True(t, ok)
		return ctx.Value(key{}).(string), nil
	}, activity.RegisterOptions{Name: "work"})
	value, err := env.ExecuteActivity("work")
	require.NoError(t, err)
	var got string
	require.NoError(t, value.Get(&got))
	require.Equal(t, "ours", got)
}

func TestGuardHasItsOptions(t *testing.T) {
	locks := temporaltesting.New(t, lockguard.WithOwner("billing"))
	require.NoError(t, locks.Guard().Do(t.Context(), lockguard.Requirement{Scope: "orders"}, func(context.Context) error {
		require.Equal(t, "billing", locks.AwaitHeld("orders").Owner)
		return nil
	}))
	require.NotEmpty(t, locks.Server().Sessions())
}

func TestWhatDoesNotFitIsRefusedAtOnce(t *testing.T) {
	for want, do := range map[string]func(l *temporaltesting.Locks){
		"scope": func(l *temporaltesting.Locks) { l.Hold(lockguard.Requirement{}) },
		"activity type is empty": func(l *temporaltesting.Locks) {
			l.NewActivityEnvironment(temporal.Declare("", temporal.Lock{}))
		},
	} {
		fake := &fakeT{TB: t}
		fake.run(func() { do(temporaltesting.New(fake)) })
		require.Contains(t, fake.fatal, want)
		fake.end()
		require.Empty(t, fake.logged)
	}
}

func TestWhatDoesNotHappenSaysWhoIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(l *temporaltesting.Locks)
		want string
	}{
		"Held":    {func(l *temporaltesting.Locks) { l.AwaitHeld("orders") }, `the lock "orders" is held by an activity or a workflow: waited 3s in vain; now: "nightly" holding`},
		"Waiting": {func(l *temporaltesting.Locks) { l.AwaitWaiting("orders") }, `an activity or a workflow waits for the lock "orders": waited 3s in vain; now: "nightly" holding`},
		"Free":    {func(l *temporaltesting.Locks) { l.AwaitFree("orders") }, `the lock "orders" is free: waited 3s in vain; now: "nightly" holding`},
		"Hold":    {func(l *temporaltesting.Locks) { l.Hold(lockguard.Requirement{Scope: "orders"}) }, `a rival gets the lock "orders"`},
		"Preempt": {func(l *temporaltesting.Locks) { l.Preempt(lockguard.Requirement{Scope: "orders"}) }, `the lock "orders" is held`},
		"Outrank": {func(l *temporaltesting.Locks) {
			_ = l.Guard().Do(t.Context(), lockguard.Requirement{Scope: "users", Terms: priority.Terms{Priority: 5}, Owner: "billing"}, func(context.Context) error {
				l.Preempt(lockguard.Requirement{Scope: "users", Terms: priority.Terms{Priority: 5}})
				return nil
			})
		}, `the holders of the lock "users" are preempted for a request with priority 5: waited 3s in vain; now: "billing" holding; "rival" waiting`},
		"Lose": {func(l *temporaltesting.Locks) { l.Lose("orders") }, `the lock "orders" is held`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := &fakeT{TB: t}
			fake.run(func() {
				l := temporaltesting.New(fake)
				l.Hold(lockguard.Requirement{Scope: "orders", Owner: "nightly"})
				l.Hurry(3 * time.Second) // what has to happen before does not take that long
				c.do(l)
			})
			require.Contains(t, fake.fatal, c.want)
			fake.end()
			require.Contains(t, fake.logged, "what happened to the locks")
			require.Contains(t, fake.logged, `"orders" by "nightly"`)
		})
	}
}
