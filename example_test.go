package lockkeeper_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Work runs under a lock. Its context ends when the lock has to be released.
func Example() {
	ctx := context.Background()

	zk, err := zktest.Start() // in production: zk1:2181,zk2:2181,zk3:2181
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

	err = guard.Do(ctx, lockkeeper.Requirement{Scope: "cluster/orders"}, func(ctx context.Context) error {
		hold, _ := lockkeeper.FromContext(ctx)
		fmt.Println("compacting", hold.Info().Requirement.Scope, "under token", hold.Token() > 0, ctx.Err())
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("released")
	// Output:
	// compacting cluster/orders under token true <nil>
	// released
}
