package lockkeeper_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Work under several locks holds all of them, or none. Each scope has a token of its
// own.
func Example_locks() {
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

	err = guard.DoAll(ctx, []lockkeeper.Requirement{
		{Scope: "cluster/users", Terms: lockkeeper.Terms{Mode: lockkeeper.Shared}},
		{Scope: "cluster/orders"},
	}, func(ctx context.Context) error {
		hold, _ := lockkeeper.FromContext(ctx)
		tokens := hold.Tokens() // each resource gets the token of its scope
		fmt.Println("moving rows under", slices.Sorted(maps.Keys(tokens)))
		return nil
	})
	if err != nil {
		panic(err)
	}

	for _, scope := range []string{"cluster/orders", "cluster/users"} {
		lock, err := client.Lock(ctx, scope)
		if err != nil {
			panic(err)
		}
		fmt.Println(scope, "held:", lock.Held())
	}
	// Output:
	// moving rows under [cluster/orders cluster/users]
	// cluster/orders held: false
	// cluster/users held: false
}
