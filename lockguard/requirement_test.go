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

func TestEachBadFieldSaysWhatToWriteInstead(t *testing.T) {
	for name, c := range map[string]struct {
		requirement Requirement
		says        []string
	}{
		"no scope":                         {Requirement{}, []string{"scope", "write"}},
		"long scope":                       {Requirement{Scope: strings.Repeat("a", 201)}, []string{"scope", "201 bytes", "200"}},
		"scope with a tab":                 {Requirement{Scope: "a\tb"}, []string{"scope", "control character"}},
		"scope with a slash":               {Requirement{Scope: "/a"}, []string{"scope", "begins with a slash", `write "a"`}},
		"emergency":                        {Requirement{Scope: scope, Terms: priority.Terms{Priority: priority.Emergency}}, []string{"priority", "reserved for operators", "2147483646"}},
		"negative priority":                {Requirement{Scope: scope, Terms: priority.Terms{Priority: -1}}, []string{"priority", "write a number from 0"}},
		"unknown mode":                     {Requirement{Scope: scope, Terms: priority.Terms{Mode: 7}}, []string{"Mode(7)", "write exclusive or shared"}},
		"negative lease":                   {Requirement{Scope: scope, Terms: priority.Terms{LeaseTimeout: -1}}, []string{"lease_timeout", "negative", "how long the work needs"}},
		"cleanup over lease":               {Requirement{Scope: scope, Terms: priority.Terms{LeaseTimeout: time.Minute, CleanupTimeout: time.Hour}}, []string{"cleanup_timeout (1h)", "lease_timeout (1m)"}},
		"cleanup is lease":                 {Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: 10 * time.Minute}}, []string{"cleanup_timeout (10m)", "lease_timeout (10m)"}},
		"negative cleanup":                 {Requirement{Scope: scope, Terms: priority.Terms{CleanupTimeout: -1}}, []string{"cleanup_timeout", "negative"}},
		"runtime over lease":               {Requirement{Scope: scope, Terms: priority.Terms{LeaseTimeout: time.Minute, MinRuntime: time.Minute + 1}}, []string{"min_runtime (1m0.000000001s)", "lease_timeout (1m)"}},
		"runtime over default lease":       {Requirement{Scope: scope, Terms: priority.Terms{MinRuntime: time.Hour}}, []string{"min_runtime (1h)", "lease_timeout (10m)"}},
		"negative delay":                   {Requirement{Scope: scope, Terms: priority.Terms{LockDelay: -1}}, []string{"lock_delay", "negative", "leave it out"}},
		"delay without end":                {Requirement{Scope: scope, Terms: priority.Terms{LockDelay: priority.MaxLockDelay + 1}}, []string{"lock_delay", "longer than 10m"}},
		"negative runtime":                 {Requirement{Scope: scope, Terms: priority.Terms{MinRuntime: -1}}, []string{"min_runtime", "negative", "leave it out"}},
		"negative delta":                   {Requirement{Scope: scope, Terms: priority.Terms{PreemptDelta: -1}}, []string{"preempt_delta", "-1", "write 1"}},
		"delta of one that never preempts": {Requirement{Scope: scope, Terms: priority.Terms{PreemptDelta: 1, NeverPreempts: true}}, []string{"preempt_delta", "never preempts", "leave one of them out"}},
		"long message":                     {Requirement{Scope: scope, Message: strings.Repeat("m", 16385)}, []string{"message", "16385 bytes", "16384", "write a shorter one"}},
		"long owner":                       {Requirement{Scope: scope, Owner: strings.Repeat("o", 1025)}, []string{"owner", "1025 bytes", "1024", "write a shorter one"}},
		"negative waiting":                 {Requirement{Scope: scope, Terms: priority.Terms{WaitingTimeout: new(-time.Second)}}, []string{"waiting_timeout", "-1s", "write 0"}},
		"negative acquire":                 {Requirement{Scope: scope, Terms: priority.Terms{AcquireTimeout: new(-time.Second)}}, []string{"acquire_timeout", "-1s", "write 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.requirement.Validate()
			require.Error(t, err)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "\n", "one problem, one line")
		})
	}
}

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

	_, err := s.Acquire(t.Context(), Requirement{Terms: priority.Terms{Priority: priority.Emergency}})

	require.ErrorContains(t, err, "scope")
	require.ErrorContains(t, err, "priority")
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

func TestOwnerOfARequirementGoesBeforeTheOwnerOfTheGuard(t *testing.T) {
	s := newSetup(t)
	hold := acquire(t.Context(), t, s, Requirement{Scope: scope, Owner: "backup"})

	require.Equal(t, "backup", s.locker.last().request.Owner)
	require.Equal(t, "backup", hold.Info().Requirement.Owner)
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
