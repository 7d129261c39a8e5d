package lockkeeper_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A hook puts the table right after a preemption. It runs under the lock, within the
// grace period, before the preemptor is granted.
func Example_cleanup() {
	ctx := context.Background()

	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()

	client, err := lockkeeper.Connect(zk.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)
	guard, err := lockkeeper.NewGuard(client)
	if err != nil {
		panic(err)
	}

	table := "whole"
	working, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- guard.Do(ctx, lockkeeper.Requirement{
			Scope: "cluster/orders",
			Terms: lockkeeper.Terms{Priority: 10, CleanupTimeout: 30 * time.Second},
		}, func(ctx context.Context) error {
			table = "half compacted"
			close(working)
			<-ctx.Done() // it would have taken an hour
			return ctx.Err()
		}, func(ctx context.Context) error { // the hook
			hold, _ := lockkeeper.FromContext(ctx)
			deadline, _ := ctx.Deadline()
			fmt.Println("cleanup begins, lock held:", hold.Check() == nil, "time limit:", !deadline.IsZero())
			table = "whole again"
			return nil
		})
	}()
	<-working

	err = guard.Do(ctx, lockkeeper.Requirement{
		Scope: "cluster/orders",
		Terms: lockkeeper.Terms{Priority: 90, Forceful: true, WaitingTimeout: new(time.Minute)},
	}, func(context.Context) error {
		fmt.Println("hotfix finds the table", table)
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("compaction was", lockkeeper.CauseOf(<-done).Kind)
	// Output:
	// cleanup begins, lock held: true time limit: true
	// hotfix finds the table whole again
	// compaction was preempted
}
