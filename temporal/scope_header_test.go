package temporal

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// inScope runs an activity in scope of a hold, as its workflow would.
func inScope(t *testing.T, locks *fakeLocks, m membership, work func(ctx context.Context, hold *fakeMember) error) error {
	t.Helper()
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&holdInterceptor{locks: locks}}})
	payload, err := converter.GetDefaultDataConverter().ToPayload([]membership{m})
	require.NoError(t, err)
	env.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{scopeHeader: payload}})
	env.RegisterActivityWithOptions(func(ctx context.Context) error { return work(ctx, locks.carried(ctx)) }, activity.RegisterOptions{Name: "work"})
	_, err = env.ExecuteActivity("work")
	return err
}

var inHold = membership{Reference: lockguard.Reference{Scope: "cluster/orders", Hold: "hold", ID: "guid", Token: 7}}

func TestActivityInScopeIsAMemberOfTheHoldAsLongAsItRuns(t *testing.T) {
	locks := newFakeLocks()
	locks.admit(inHold.Reference)
	var joined *fakeMember
	require.NoError(t, inScope(t, locks, inHold, func(_ context.Context, hold *fakeMember) error {
		joined = hold
		require.False(t, closed(hold.released))
		return nil
	}))
	require.True(t, closed(joined.released))
	require.NotNil(t, locks.holds(), "the hold goes on")
}

func TestActivityInScopeThatIsPreemptedFailsForGoodUnlessItHasCompleted(t *testing.T) {
	preempted := &lockguard.PreemptedError{Scope: "cluster/orders", By: "hotfix", Priority: 9, Grace: time.Minute, Deadline: time.Now().Add(time.Minute)}
	for name, result := range map[string]error{"Failed": errors.New("disk full"), "Stopped": context.Canceled, "Completed": nil} {
		t.Run(name, func(t *testing.T) {
			locks := newFakeLocks()
			locks.admit(inHold.Reference)
			err := inScope(t, locks, inHold, func(ctx context.Context, hold *fakeMember) error {
				hold.end(preempted)
				require.ErrorIs(t, context.Cause(ctx), preempted)
				return result
			})
			if result == nil {
				require.NoError(t, err)
				return
			}
			application := requireType(t, ErrTypeLockPreempted, err)
			require.True(t, application.NonRetryable())
			i, ok := interruptionOf(err)
			require.True(t, ok)
			require.Equal(t, "hold", i.Hold)
			require.Equal(t, "hotfix", i.By)
			require.InDelta(t, time.Minute, i.Grace, float64(30*time.Second))
		})
	}
}

func TestActivityInScopeThatLosesItsSessionIsTriedAgain(t *testing.T) {
	// others may hold the lock yet: the next attempt finds out
	for reason, final := range map[lock.LossReason]bool{lock.LossSession: false, lock.LossTaken: true} {
		locks := newFakeLocks()
		locks.admit(inHold.Reference)
		err := inScope(t, locks, inHold, func(_ context.Context, hold *fakeMember) error {
			hold.lose(reason)
			return errors.New("stopped")
		})
		application := requireType(t, ErrTypeLockLost, err)
		require.Equal(t, final, application.NonRetryable())
		i, _ := interruptionOf(err)
		require.Equal(t, final, i.Hold != "", "the workflow takes only the loss of the hold itself for one")
	}
}

func TestActivityInScopeThatFailsByItselfFailsAsItIs(t *testing.T) {
	locks := newFakeLocks()
	locks.admit(inHold.Reference)
	err := inScope(t, locks, inHold, func(context.Context, *fakeMember) error {
		return sdk.NewApplicationError("full", "DiskFull")
	})
	requireType(t, "DiskFull", err)
}

func TestActivityInScopeIsNotRunWithoutTheHold(t *testing.T) {
	for name, c := range map[string]struct {
		refuse error // nil: it is not there
		want   string
		final  bool
	}{
		"Gone":        {nil, ErrTypeLockLost, true},
		"AskedToGo":   {&lockguard.PreemptedError{Scope: "cluster/orders", By: "hotfix"}, ErrTypeLockPreempted, true},
		"Unavailable": {&lock.UnavailableError{}, ErrTypeLockUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			locks := newFakeLocks()
			if c.refuse != nil {
				locks.admit(inHold.Reference)
				locks.refuse = func(string) error { return c.refuse }
			}
			err := inScope(t, locks, inHold, func(context.Context, *fakeMember) error {
				require.FailNow(t, "must not run")
				return nil
			})
			application := requireType(t, c.want, err)
			require.Equal(t, c.final, application.NonRetryable())
			if i, ok := interruptionOf(err); c.final {
				require.True(t, ok)
				require.Equal(t, "hold", i.Hold)
			}
		})
	}
}

func TestActivityOfAnotherTokenIsNotInTheHold(t *testing.T) {
	locks := newFakeLocks()
	later := inHold.Reference
	later.Token = 11
	locks.admit(later)
	err := inScope(t, locks, inHold, func(context.Context, *fakeMember) error { return nil })
	requireType(t, ErrTypeLockLost, err)
}
