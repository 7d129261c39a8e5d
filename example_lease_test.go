package lockkeeper_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The lease is how long the work needs. Work that needs longer extends it, until it is
// preempted.
func Example_lease() {
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

	err = guard.Do(ctx, lockkeeper.Requirement{
		Scope: "cluster/orders",
		Terms: lockkeeper.Terms{LeaseTimeout: time.Hour},
	}, func(ctx context.Context) error {
		hold, _ := lockkeeper.FromContext(ctx)
		before := hold.Info().LeaseDeadline
		if err := hold.Extend(ctx, 3*time.Hour); err != nil {
			return err // preempted or lost
		}
		fmt.Println("the lease ends later:", hold.Info().LeaseDeadline.Sub(before).Round(time.Hour))
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// the lease ends later: 2h0m0s
}
