package temporal_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// What everybody should see on a real Temporal server. The names of these tests begin with TestBasic; each takes a few
// seconds.

func TestBasicLockedActivitiesExcludeEachOtherAndAddNoEvents(t *testing.T) {
	t.Parallel()
	// given two workers, and activities that have one attempt
	f := newFixture(t)
	for _, name := range []string{"one", "other"} {
		f.work(setup{name: name, lock: temporal.Lock{OnBusy: temporal.BusyWait}})
	}
	var runs []client.WorkflowRun
	for range 10 {
		runs = append(runs, f.start("labour", retrying(once, steady)))
	}

	// then they have run one after the other, with tokens that grow
	for _, run := range runs {
		completed[any](f, run)
		require.Equal(t, []enums.EventType{
			enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
			enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
			enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
			enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		}, f.events(run))
	}
	require.Len(t, f.reported("leave"), len(runs))
	f.oneAtATime()
}

func TestBasicPreemptionCancelsAnActivityWhateverItsHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lock := temporal.Lock{Requirement: lockguard.Requirement{Terms: priority.Terms{CleanupTimeout: time.Minute}}}
	f.work(setup{lock: lock})
	run := f.start("linger", retrying(func(o *workflow.ActivityOptions) {
		o.HeartbeatTimeout, o.Priority = time.Minute, sdk.Priority{PriorityKey: 2}
	}))
	first := f.awaits("write")
	require.EqualValues(t, 30, f.State(f.locks, scope).Holders[0].Priority, "that of the activity in Temporal")

	// when somebody more important wants the lock
	token := f.requests(urgent).Granted()

	// then the activity was told, and another attempt follows
	require.Equal(t, "preempted", f.awaits("told").Cause)
	require.Greater(t, token, first.Token)
	require.Greater(t, completed[lockguard.Token](f, run), token)
}

func TestBasicWorkflowHoldsItsLockOverItsActivities(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work(setup{name: "one"})
	f.work(setup{name: "other"})

	// when two workflows want the same lock
	steps := migration{Steps: []string{"step", "step", "step"}}
	first, second := f.migrate(steps), f.migrate(steps)

	// then each has done all its steps under one token, and one after the other
	a := f.sameToken(3, completed[[]lockguard.Token](f, first))
	b := f.sameToken(3, completed[[]lockguard.Token](f, second))
	all := f.reported("step")
	require.Len(t, all, 6)
	for i, r := range all {
		require.Equal(t, map[bool]lockguard.Token{true: min(a, b), false: max(a, b)}[i < 3], r.Token, "%v", all)
	}
	f.isFree()
}

func TestBasicPreemptedWorkflowRunsItsHookUnderTheLock(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{"between activities": "step", "while one runs": "block"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.work(setup{})
			run := f.migrate(migration{Steps: []string{step}, Waits: true})
			held := f.awaits(step)
			if step == "step" {
				f.asleep(run)
			}

			// when somebody more important takes the lock by force
			token := f.requests(hotfix).Granted()

			// then the hook has run before that, under the token of the workflow
			undo := f.reported("undo")
			require.Len(t, undo, 1)
			require.Equal(t, held.Token, undo[0].Token)
			require.Greater(t, token, held.Token)
			p, ok := temporal.PreemptionOf(f.failed(run, temporal.ErrTypeLockPreempted))
			require.True(t, ok)
			require.Equal(t, "hotfix", p.By)
			require.Equal(t, 9, p.Priority)
			if step == "block" {
				require.Equal(t, "preempted", f.awaits("told").Cause)
			}
		})
	}
}

// The session lasts longer than Temporal needs to notice.
func TestBasicLockOfAWorkflowOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	killed := f.process("killed", 40*time.Second)
	run := f.migrate(migration{Steps: []string{"step"}, Waits: true, After: []string{"step"}, Heartbeat: 2 * time.Second})
	f.asleep(run)
	next := f.requests(lockguard.Requirement{Terms: priority.Terms{NeverPreempts: true}})
	f.waiters(1)

	// when the worker is killed that keeps the lock, and there is another one
	f.work(setup{})
	require.NoError(t, killed.Signal(syscall.SIGKILL))
	f.started(run, 2)
	f.goOn(run)

	// then the workflow goes on under the same token, and no other had the lock meanwhile
	token := f.sameToken(2, completed[[]lockguard.Token](f, run))
	require.Greater(t, next.Granted(), token)
}
