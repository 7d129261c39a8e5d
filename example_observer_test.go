package lockkeeper_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An observer is called with every event of every request, in order: for logs, metrics
// and traces.
func Example_observer() {
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
	guard, err := lockkeeper.NewGuard(client,
		lockkeeper.WithOwner("compact"),
		lockkeeper.WithObserver(func(_ context.Context, event lockkeeper.Event) {
			fmt.Println(event.Owner, event.Scope, event.Kind())
		}))
	if err != nil {
		panic(err)
	}

	err = guard.Do(ctx, lockkeeper.Requirement{Scope: "cluster/orders"}, func(context.Context) error {
		fmt.Println("working")
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// compact cluster/orders waiting
	// compact cluster/orders acquired
	// working
	// compact cluster/orders released
}
