package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A guard that retries makes several requests, with growing pauses between them, and
// runs the work once.
func Example_retry() {
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
	retrying, err := guard.Retrying(lockkeeper.Retry{Attempts: 5, Pause: time.Millisecond})
	if err != nil {
		panic(err)
	}

	hold, err := guard.Acquire(ctx, lockkeeper.Requirement{Scope: "cluster/orders"})
	if err != nil {
		panic(err)
	}
	defer hold.Release(ctx)

	err = retrying.Do(ctx, lockkeeper.Requirement{
		Scope: "cluster/orders",
		Terms: lockkeeper.Terms{AcquireTimeout: new(time.Duration(0))}, // try; do not queue
	}, func(context.Context) error {
		fmt.Println("never printed: the lock is held")
		return nil
	})
	if gaveUp, ok := errors.AsType[*lockkeeper.RetryError](err); ok {
		fmt.Println("not acquired after", gaveUp.Attempts, "attempts:", lockkeeper.CauseOf(err).Kind)
	}
	// Output:
	// not acquired after 5 attempts: timeout
}
