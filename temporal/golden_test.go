package temporal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/temporal/temporaltesting"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// record is the address of a Temporal server on which the histories are recorded
// anew, with `go test ./temporal -run TestRecordedHistories -args -record 127.0.0.1:7233`.
var record = flag.String("record", "", "record the histories anew, on the Temporal server with this address")

// migrated is the lock of the recorded workflows.
var migrated = lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{Priority: 5, CleanupTimeout: 30 * time.Second}}

// A told is one workflow of which a history is recorded.
type told struct {
	workflow func(ctx workflow.Context, n int) error
	happens  func(s *recording) // to it, when the activity "step" runs for the first time
	ends     string             // with this type of error; "": it completes
	runs     int                // that it has
}

var histories = map[string]told{
	"happy":     {workflow: migrateTwice, runs: 1},
	"on-close":  {workflow: migrateOnClose, runs: 1},
	"preempted": {workflow: migrateUntilAsked, happens: (*recording).preempt, ends: temporal.ErrTypeLockPreempted, runs: 1},
	"lost":      {workflow: migrateUntilAsked, happens: (*recording).expire, ends: temporal.ErrTypeLockLost, runs: 1},
	"regranted": {workflow: migrateAgain, happens: (*recording).expire, runs: 1},
	"canceled":  {workflow: migrateUntilAsked, happens: (*recording).cancel, ends: "canceled", runs: 1},
	"continued": {workflow: migrateAndContinue, runs: 2},
}

func migrateTwice(ctx workflow.Context, _ int) error {
	ctx = briefly(ctx)
	return temporal.WithLock(ctx, migrated, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		for range 2 {
			if err := underToken(ctx, hold, "step"); err != nil {
				return err
			}
		}
		return nil
	})
}

func migrateOnClose(ctx workflow.Context, _ int) error {
	ctx = briefly(ctx)
	return temporal.WithLock(ctx, migrated, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		return underToken(ctx, hold, "step")
	}, temporal.ReleaseOnClose())
}

func migrateUntilAsked(ctx workflow.Context, _ int) error {
	ctx = briefly(ctx)
	return temporal.WithLock(ctx, migrated, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		if err := underToken(ctx, hold, "step"); err != nil {
			return err
		}
		return workflow.Sleep(ctx, time.Hour)
	}, temporal.OnPreempt(func(ctx workflow.Context, p temporal.Preemption) error {
		return workflow.ExecuteActivity(ctx, "undo").Get(ctx, nil)
	}))
}

func migrateAgain(ctx workflow.Context, _ int) error {
	ctx = briefly(ctx)
	first := true
	return temporal.WithLock(ctx, migrated, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		if err := underToken(ctx, hold, "step"); err != nil || !first {
			return err
		}
		first = false
		return workflow.Sleep(ctx, time.Hour)
	}, temporal.AgainAfterLoss())
}

func migrateAndContinue(ctx workflow.Context, n int) error {
	ctx = briefly(ctx)
	return temporal.WithLock(ctx, migrated, func(ctx workflow.Context, hold temporal.WorkflowHold) error {
		if hold.Continued() != (n > 0) {
			return errors.New("the lock was not kept")
		}
		if err := underToken(ctx, hold, "step"); err != nil || n > 0 {
			return err
		}
		return hold.ContinueAsNew(ctx, "migrateAndContinue", n+1)
	})
}

func briefly(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
}

// underToken executes an activity that returns the token that it runs under.
func underToken(ctx workflow.Context, hold temporal.WorkflowHold, activity string) error {
	var token lockguard.Token
	if err := workflow.ExecuteActivity(ctx, activity).Get(ctx, &token); err != nil {
		return err
	}
	if token != hold.Token() {
		return sdk.NewNonRetryableApplicationError("the activity has another token", "WrongToken", nil)
	}
	return nil
}

func TestRecordedHistoriesReplay(t *testing.T) {
	for name, h := range histories {
		t.Run(name, func(t *testing.T) {
			if *record != "" {
				recordHistory(t, name, h)
			}
			files, err := filepath.Glob(filepath.Join("testdata", "withlock-"+name+"-*.json"))
			require.NoError(t, err)
			require.Len(t, files, h.runs)
			p := newPlugin(t, newGuard(t, zktest.RunT(t), "a"))
			for _, file := range files {
				replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Plugins: []worker.Plugin{p}})
				require.NoError(t, err)
				registerHistories(replayer)
				require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file), file)
			}
		})
	}
}

func registerHistories(r worker.WorkflowRegistry) {
	for name, f := range map[string]any{
		"migrateTwice": migrateTwice, "migrateOnClose": migrateOnClose, "migrateUntilAsked": migrateUntilAsked,
		"migrateAgain": migrateAgain, "migrateAndContinue": migrateAndContinue,
	} {
		r.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
}

// A recording is a workflow that runs to be recorded.
type recording struct {
	t     *testing.T
	zk    *zktest.Server
	guard *lockguard.Guard // of somebody else
	run   client.WorkflowRun
	c     client.Client
}

func (s *recording) preempt() {
	requirement := migrated
	requirement.Priority, requirement.Owner = 9, "hotfix"
	require.NoError(s.t, s.guard.Do(s.t.Context(), requirement, func(context.Context) error { return nil }))
}

func (s *recording) expire() {
	for _, session := range s.zk.Sessions() {
		s.zk.Expire(session.ID)
	}
}

func (s *recording) cancel() {
	require.NoError(s.t, s.c.CancelWorkflow(s.t.Context(), s.run.GetID(), s.run.GetRunID()))
}

// recordHistory runs a workflow on a real server and writes down what has become
// of it.
func recordHistory(t *testing.T, name string, h told) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := &recording{t: t, zk: zktest.RunT(t)}
	s.guard = newGuard(t, s.zk, "hotfix")
	c, err := client.Dial(client.Options{HostPort: *record, Identity: "recorder"})
	require.NoError(t, err)
	defer c.Close()
	s.c = c

	// given a worker whose first "step" lets happen what has to
	w := worker.New(c, "record-"+name, worker.Options{Plugins: []worker.Plugin{newPlugin(t, newGuard(t, s.zk, "worker"))}})
	registerHistories(w)
	begun := make(chan struct{}, 10)
	step := func(ctx context.Context) (lockguard.Token, error) {
		hold, ok := lockguard.FromContext(ctx)
		if !ok {
			return 0, nil
		}
		defer func() { begun <- struct{}{} }()
		return hold.Token(), nil
	}
	w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: "step"})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "undo"})
	require.NoError(t, w.Start())
	defer w.Stop()

	// when it runs
	s.run, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "withlock-" + name, TaskQueue: "record-" + name, WorkflowTaskTimeout: time.Minute}, h.workflow, 0)
	require.NoError(t, err)
	first := s.run.GetRunID()
	<-begun
	if h.happens != nil {
		h.happens(s)
	}
	err = s.run.Get(ctx, nil)

	// then it ends as it should
	switch h.ends {
	case "":
		require.NoError(t, err)
	case "canceled":
		require.True(t, sdk.IsCanceledError(err), "%v", err)
	default:
		var application *sdk.ApplicationError
		require.ErrorAs(t, err, &application)
		require.Equal(t, h.ends, application.Type())
	}
	runs := slices.Compact([]string{first, s.run.GetRunID()})
	for n, run := range runs {
		temporaltesting.Record(t, ofRun{c, run}, s.run.GetID(), filepath.Join("testdata", fmt.Sprintf("withlock-%s-%d.json", name, n+1)))
	}
}

// ofRun has the histories of one run.
type ofRun struct {
	client.Client
	run string
}

func (r ofRun) GetWorkflowHistory(ctx context.Context, id, _ string, wait bool, filter enums.HistoryEventFilterType) client.HistoryEventIterator {
	return r.Client.GetWorkflowHistory(ctx, id, r.run, wait, filter)
}
