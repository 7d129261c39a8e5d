package temporaltesting_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/temporal/temporaltesting"
)

// recorded is a history that package temporal has recorded on a real server.
func recorded(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../testdata/withlock-happy-1.json")
	require.NoError(t, err)
	return text
}

func files(t *testing.T) fs.FS {
	t.Helper()
	return fstest.MapFS{"2026/happy.json": {Data: recorded(t)}, "README.md": {}}
}

// twice is the workflow of that history, with n steps in place of two, and another
// activity in place of "step".
func twice(n int, step string) temporaltesting.Named {
	return temporaltesting.Named{Name: "migrateTwice", Workflow: func(ctx workflow.Context, _ int) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return temporal.WithLock(ctx, lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{Priority: 5, CleanupTimeout: 30 * time.Second}},
			func(ctx workflow.Context, hold temporal.WorkflowHold) error {
				for range n {
					if err := workflow.ExecuteActivity(ctx, step).Get(ctx, nil); err != nil {
						return err
					}
				}
				return nil
			})
	}}
}

func TestHistoryThatFitsIsReplayed(t *testing.T) {
	temporaltesting.Replay(t, files(t), []any{twice(2, "step")})
	temporaltesting.Replay(t, files(t), []any{twice(2, "step")}, temporal.Declare("step", temporal.Lock{Requirement: lockguard.Requirement{Scope: "step"}}))
}

// slow is a workflow whose code takes more than the second after which the SDK says that it is in a deadlock.
func slow(ctx workflow.Context, _ int) error {
	<-time.After(1500 * time.Millisecond)
	return nil
}

func TestWorkflowOnABusyMachineIsInNoDeadlock(t *testing.T) {
	t.Parallel()
	env := temporaltesting.New(t).NewWorkflowEnvironment()
	env.ExecuteWorkflow(slow, 1)
	require.NoError(t, env.GetWorkflowError())
	temporaltesting.Replay(t, files(t), []any{temporaltesting.Named{Name: "migrateTwice", Workflow: func(ctx workflow.Context, n int) error {
		return errors.Join(slow(ctx, n), twice(2, "step").Workflow.(func(workflow.Context, int) error)(ctx, n))
	}}})
}

func TestHistoryThatDoesNotFitSaysWhere(t *testing.T) {
	for name, c := range map[string]struct {
		workflow temporaltesting.Named
		want     []string
	}{
		"AnotherStep": {twice(2, "stop"), []string{"from event 9 on, where the workflow did this: 10 ActivityTaskScheduled step:", "nondeterministic", "Name:stop"}},
		"StepMore":    {twice(3, "step"), []string{"from event 21 on, where the workflow did this: 22 MarkerRecorded LocalActivity, 23 ActivityTaskCancelRequested, 24 WorkflowExecutionCompleted:", "ScheduleActivityTask"}},
		"StepMissing": {twice(1, "step"), []string{"from event 15 on, where the workflow did this: 16 ActivityTaskScheduled step:"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := temporaltesting.ReplayFile(t, files(t), "2026/happy.json", c.workflow)
			require.ErrorContains(t, err, "history 2026/happy.json of workflow migrateTwice does not fit")
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	err := temporaltesting.ReplayFile(t, files(t), "2026/happy.json", temporaltesting.Named{Name: "other", Workflow: twice(2, "step").Workflow})
	require.ErrorContains(t, err, "migrateTwice")
	err = temporaltesting.ReplayFile(t, fstest.MapFS{"a.json": {Data: []byte("{")}}, "a.json")
	require.ErrorContains(t, err, "a.json is no history")
}

func TestReplayOfNothingFails(t *testing.T) {
	require.Len(t, temporaltesting.HistoryFiles(t, files(t)), 1)
	require.Empty(t, temporaltesting.HistoryFiles(t, fstest.MapFS{"happy.txt": {}}))
}

// historian has one history, by a name.
type historian struct {
	events []*history.HistoryEvent
	err    error
}

func (h *historian) GetWorkflowHistory(_ context.Context, workflowID, runID string, longPoll bool, _ enums.HistoryEventFilterType) client.HistoryEventIterator {
	if workflowID != "migrate" || runID != "" || longPoll {
		h.err = errors.New("not found")
	}
	return h
}

func (h *historian) HasNext() bool { return len(h.events) > 0 || h.err != nil }

func (h *historian) Next() (*history.HistoryEvent, error) {
	if h.err != nil {
		return nil, h.err
	}
	event := h.events[0]
	h.events = h.events[1:]
	return event, nil
}

func TestRecordedHistoryIsReplayed(t *testing.T) {
	f, err := files(t).Open("2026/happy.json")
	require.NoError(t, err)
	defer f.Close()
	original, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	require.NoError(t, err)
	dir := t.TempDir()
	temporaltesting.Record(t, &historian{events: original.Events}, "migrate", filepath.Join(dir, "a", "happy.json"))
	temporaltesting.Replay(t, os.DirFS(dir), []any{twice(2, "step")})

	fake := &fakeT{TB: t}
	fake.run(func() {
		temporaltesting.Record(fake, &historian{events: original.Events}, "another", filepath.Join(dir, "b.json"))
	})
	require.Contains(t, fake.fatal, "the history of workflow another is not read: not found")
	require.NoFileExists(t, filepath.Join(dir, "b.json"))
}
