package main

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// batches is how many there are to copy.
const batches = 5

// interrupted is the batch in the middle of which the repair wants the lock.
const interrupted = 3

// migration is the lock that a migration needs: not more important than most, and
// with time to undo what it has begun.
var migration = lockguard.Requirement{
	Scope: "cluster/orders", Terms: priority.Terms{
		Priority:     20,
		LeaseTimeout: 10 * time.Minute, CleanupTimeout: 20 * time.Second,
	}, Message: "moves the orders to a new shard",
}

// Migrate moves the orders. When it has to give way it undoes what it has begun,
// and fails with an error that says so, whereupon it is tried again.
func Migrate(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})

	return temporal.WithLock(ctx, migration, func(ctx workflow.Context, _ temporal.WorkflowHold) error {
		if err := workflow.ExecuteActivity(ctx, "Freeze").Get(ctx, nil); err != nil {
			return err
		}
		for batch := 1; batch <= batches; batch++ {
			if err := workflow.ExecuteActivity(ctx, "Copy", batch).Get(ctx, nil); err != nil {
				return err
			}
		}
		if err := workflow.ExecuteActivity(ctx, "Switch").Get(ctx, nil); err != nil {
			return err
		}
		return workflow.ExecuteActivity(ctx, "Thaw").Get(ctx, nil)
	}, temporal.OnPreempt(func(ctx workflow.Context, p temporal.Preemption) error {
		if !p.Held() {
			return nil // another holder owns what was begun
		}
		if err := workflow.ExecuteActivity(ctx, "Discard").Get(ctx, nil); err != nil {
			return err
		}
		return workflow.ExecuteActivity(ctx, "Thaw").Get(ctx, nil)
	}))
}
