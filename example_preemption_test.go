package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A request of higher priority preempts the holder. The context of the holder's work
// ends, and its cause says who wants the lock.
func Example_preemption() {
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

	working, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- guard.Do(ctx, lockkeeper.Requirement{
			Scope: "cluster/orders",
			Owner: "backup",
			Terms: lockkeeper.Terms{Priority: 10},
		}, func(ctx context.Context) error {
			close(working)
			<-ctx.Done() // a day's work
			if preempted, ok := errors.AsType[*lockkeeper.PreemptedError](context.Cause(ctx)); ok {
				fmt.Println("backup stops for", preempted.By, "of priority", preempted.Priority)
			}
			return ctx.Err()
		})
	}()
	<-working

	err = guard.Do(ctx, lockkeeper.Requirement{
		Scope: "cluster/orders",
		Owner: "hotfix",
		Terms: lockkeeper.Terms{Priority: 90},
	}, func(context.Context) error {
		fmt.Println("hotfix has the lock")
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("backup was", lockkeeper.CauseOf(<-done).Kind)
	// Output:
	// backup stops for hotfix of priority 90
	// hotfix has the lock
	// backup was preempted
}
