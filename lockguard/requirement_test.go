package lockguard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestOnlyTheScopeHasToBeSet(t *testing.T) {
	require.NoError(t, Requirement{Scope: scope}.Validate())
	require.NoError(t, Requirement{
		Scope: strings.Repeat("a", 200), Terms: priority.Terms{
			Priority: priority.Emergency - 1, CleanupTimeout: time.Minute, LeaseTimeout: time.Hour,
			WaitingTimeout: new(time.Duration(0)), AcquireTimeout: new(time.Duration(0)),
			MinRuntime: time.Hour, PreemptDelta: 1000,
		},
	}.Validate())
	require.NoError(t, Requirement{Scope: scope, Terms: priority.Terms{MinRuntime: priority.DefaultLeaseTimeout, NeverPreempts: true}}.Validate())
}

func TestBadRequirementIsRefusedBeforeAnythingHappens(t *testing.T) {
	s := newSetup(t)

	_, err := s.Acquire(t.Context(), Requirement{
		Owner: strings.Repeat("o", 1025), Message: strings.Repeat("m", 16385), Terms: priority.Terms{Priority: priority.Emergency},
	})

	for _, says := range []string{"scope: ", "owner: takes 1025 bytes, more than 1024; write a shorter one", "message: takes 16385 bytes", "priority: "} {
		require.ErrorContains(t, err, says)
	}
	require.Empty(t, s.locker.grants)
	require.Empty(t, s.events.list())
}

func TestRequestCarriesTheWholeRequirementWithItsDefaults(t *testing.T) {
	s := newSetup(t, WithTrace(func(_ context.Context, about Subject) string { return "trace of " + about.Scope }))
	requirement := Requirement{
		Scope: scope, Terms: priority.Terms{
			Priority: 5, CleanupTimeout: time.Second, WaitingTimeout: new(2 * time.Second),
			AcquireTimeout: new(3 * time.Second), Forceful: true,
			MinRuntime: time.Minute, LockDelay: time.Second, NeverPreempts: true,
		},
		Message: "nightly",
	}

	hold := acquire(t.Context(), t, s, requirement)
	require.NoError(t, hold.Release(t.Context()))

	got := s.locker.last().request
	got.Notify = nil
	require.Equal(t, lock.Request{
		Identity: priority.Identity{Owner: "compact", Message: "nightly", Trace: "trace of " + scope}, Terms: priority.Terms{
			Priority: 5, LeaseTimeout: 10 * time.Minute, CleanupTimeout: time.Second,
			WaitingTimeout: requirement.WaitingTimeout, AcquireTimeout: requirement.AcquireTimeout,
			Forceful: true, MinRuntime: time.Minute, LockDelay: time.Second, NeverPreempts: true,
		},
	}, got)

	requirement.PreemptDelta, requirement.NeverPreempts = 4, false
	require.Equal(t, 4, requirement.request("", nil).PreemptDelta)
}

func TestPlanOfARequirementIsThatOfItsRequest(t *testing.T) {
	state := lock.State{Scope: scope, Holders: []lock.Contender{{
		Identity: priority.Identity{Owner: "holder"}, Terms: priority.Terms{Priority: 5, CleanupTimeout: time.Second}, Remaining: priority.Remaining{LeaseLeft: time.Hour, MinRuntimeLeft: time.Minute},
	}}}

	plan := Requirement{Scope: scope, Terms: priority.Terms{Priority: 9, Forceful: true}}.Plan(state)

	require.Equal(t, inspect.OutcomeTakesOver, plan.Outcome)
	require.Equal(t, time.Minute+time.Second, plan.After)
	require.Equal(t, priority.BarMinRuntime, plan.Obstacles[0].Bar)
}

func TestOwnerDefaultsToHostAndProcess(t *testing.T) {
	g, err := newGuard(&fakeLocker{})
	require.NoError(t, err)
	require.Regexp(t, `.:\d+$`, g.owner)
}

func TestBadOptionsAreAllReported(t *testing.T) {
	_, err := newGuard(&fakeLocker{}, WithObserver(nil), WithOwner(""), WithLogger(nil), WithTrace(nil))
	for _, option := range []string{"WithObserver", "WithOwner", "WithLogger", "WithTrace"} {
		require.ErrorContains(t, err, option)
	}
	_, err = New(nil)
	require.ErrorContains(t, err, "client is nil")
}

func TestHooksWithoutACleanupTimeoutAreRefused(t *testing.T) {
	s := newSetup(t)
	hook := func(context.Context) error { return nil }

	err := s.Do(t.Context(), Requirement{Scope: scope}, untilCancelled, hook)
	require.ErrorContains(t, err, "cleanup_timeout")
	err = s.Do(t.Context(), required(), untilCancelled, hook, nil)
	require.ErrorContains(t, err, "hook is nil")
	err = s.Do(t.Context(), required(), nil)
	require.ErrorContains(t, err, "work: is nil")
	require.Empty(t, s.locker.grants, "nothing was acquired")

	hold := acquire(t.Context(), t, s, Requirement{Scope: scope})
	require.ErrorContains(t, hold.OnCleanup(hook), "cleanup_timeout")
}
