package lockkeeper_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Two readers hold the lock together. A writer waits until both have released it.
func Example_shared() {
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
	queued := make(chan struct{}, 1)
	guard, err := lockkeeper.NewGuard(client, lockkeeper.WithObserver(func(_ context.Context, event lockkeeper.Event) {
		if event.Kind() == "queued" && event.Mode == lockkeeper.Exclusive {
			queued <- struct{}{}
		}
	}))
	if err != nil {
		panic(err)
	}

	var readers [2]*lockkeeper.Hold
	for i := range readers {
		readers[i], err = guard.Acquire(ctx, lockkeeper.Requirement{
			Scope: "cluster/orders",
			Terms: lockkeeper.Terms{Mode: lockkeeper.Shared},
		})
		if err != nil {
			panic(err)
		}
	}
	fmt.Println("two readers:", readers[0].Check() == nil && readers[1].Check() == nil)

	var writer sync.WaitGroup
	writer.Go(func() {
		err := guard.Do(ctx, lockkeeper.Requirement{Scope: "cluster/orders"}, func(context.Context) error {
			fmt.Println("one writer")
			return nil
		})
		if err != nil {
			panic(err)
		}
	})
	<-queued
	for _, reader := range readers {
		fmt.Println("a reader releases")
		if err := reader.Release(ctx); err != nil {
			panic(err)
		}
	}
	writer.Wait()
	// Output:
	// two readers: true
	// a reader releases
	// a reader releases
	// one writer
}
