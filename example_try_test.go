package lockkeeper_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An acquire timeout of 0 is a try: it is granted at once, or never. The error says who
// holds the lock.
func Example_try() {
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

	report := func(owner string) error {
		return guard.Do(ctx, lockkeeper.Requirement{
			Scope: "shop/report",
			Owner: owner,
			Terms: lockkeeper.Terms{AcquireTimeout: new(time.Duration(0))},
		}, func(context.Context) error {
			fmt.Println(owner, "writes the report")
			return nil
		})
	}

	hold, err := guard.Acquire(ctx, lockkeeper.Requirement{Scope: "shop/report", Owner: "host-1"})
	if err != nil {
		panic(err)
	}
	if busy, ok := errors.AsType[*lockkeeper.NotAcquiredError](report("host-2")); ok {
		fmt.Println("host-2 leaves it to", busy.Holders[0].Owner)
	}
	if err := hold.Release(ctx); err != nil {
		panic(err)
	}
	if err := report("host-3"); err != nil {
		panic(err)
	}
	// Output:
	// host-2 leaves it to host-1
	// host-3 writes the report
}
