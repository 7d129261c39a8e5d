package temporal_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// migrated is the lock of the recorded workflows.
var migrated = lockguard.Requirement{Scope: "cluster/orders", Terms: priority.Terms{Priority: 5, CleanupTimeout: 30 * time.Second}}

// histories says how many runs each recorded workflow has, one file of testdata for each. The files are never written
// anew: versions of before have recorded them, and a new workflow gets new files (see temporaltesting.Record).
var histories = map[string]int{
	"happy": 1, "on-close": 1, "preempted": 1, "lost": 1, "regranted": 1, "canceled": 1,
	"continued": 2,
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
	for name, runs := range histories {
		t.Run(name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("testdata", "withlock-"+name+"-*.json"))
			require.NoError(t, err)
			require.Len(t, files, runs)
			p := newPlugin(t, newGuard(t, zktest.RunT(t), "a"))
			for _, file := range files {
				replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Plugins: []worker.Plugin{p}, DisableDeadlockDetection: true}) // a busy machine is slow
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
