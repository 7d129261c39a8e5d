package lockkeeper_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Any client can read who holds a lock and who waits for it, in the order of the queue.
func Example_queue() {
	ctx, stop := context.WithCancel(context.Background())

	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()

	client, err := lockkeeper.Connect(zk.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())
	queued := make(chan struct{}, 2)
	guard, err := lockkeeper.NewGuard(client, lockkeeper.WithObserver(func(_ context.Context, event lockkeeper.Event) {
		if event.Kind() == "queued" {
			queued <- struct{}{}
		}
	}))
	if err != nil {
		panic(err)
	}

	hold, err := guard.Acquire(ctx, lockkeeper.Requirement{
		Scope: "cluster/orders",
		Owner: "backup",
		Terms: lockkeeper.Terms{Priority: 50},
	})
	if err != nil {
		panic(err)
	}
	waiting := []lockkeeper.Requirement{
		{Scope: "cluster/orders", Owner: "report", Terms: lockkeeper.Terms{Priority: 10}, Message: "monthly figures"},
		{Scope: "cluster/orders", Owner: "compact", Terms: lockkeeper.Terms{Priority: 20}, Message: "before the backup"},
	}
	failed := make(chan error, len(waiting))
	for _, requirement := range waiting {
		go func() { failed <- guard.Do(ctx, requirement, func(context.Context) error { return nil }) }()
		<-queued
	}

	lock, err := client.Lock(ctx, "cluster/orders")
	if err != nil {
		panic(err)
	}
	for _, holder := range lock.Holders {
		fmt.Println("holder:", holder.Owner)
	}
	for _, waiter := range lock.Waiters {
		fmt.Printf("waiter %d: %s of priority %d, %q\n", waiter.Position, waiter.Owner, waiter.Priority, waiter.Message)
	}

	stop() // the waiters leave, the holder releases
	for range waiting {
		<-failed
	}
	_ = hold.Release(context.Background())
	// Output:
	// holder: backup
	// waiter 1: compact of priority 20, "before the backup"
	// waiter 2: report of priority 10, "monthly figures"
}
