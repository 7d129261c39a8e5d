package emergency_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/emergency"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A freeze keeps requests below a priority from being granted. The error says which
// override does that, and until when.
func Example_freeze() {
	ctx := context.Background()

	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()

	client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}})
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)
	desk, err := emergency.NewDesk(emergency.DeskConfig{})
	if err != nil {
		panic(err)
	}
	guard, err := lockguard.New(client, lockguard.WithOverrides(desk))
	if err != nil {
		panic(err)
	}

	desk.SetFile([]override.Override{{
		ID: "INC-4411", Kind: override.Freeze, By: "ana", Reason: "disk full", Until: time.Now().Add(time.Hour),
		Match: override.Match{Scope: "cluster/*", PriorityBelow: new(priority.Level(80))},
	}})
	for _, level := range []priority.Level{20, 90} {
		err := guard.Do(ctx, lockguard.Requirement{
			Scope: "cluster/orders",
			Terms: priority.Terms{Priority: level, AcquireTimeout: new(time.Duration(0))},
		}, func(context.Context) error {
			fmt.Println("priority", level, "has the lock")
			return nil
		})
		if frozen, ok := errors.AsType[*lockguard.FrozenError](err); ok {
			fmt.Println("priority", level, "is frozen by", frozen.Override.By, "for", frozen.Override.ID)
		}
	}
	// Output:
	// priority 20 is frozen by ana for INC-4411
	// priority 90 has the lock
}

// An operator takes a lock from its holder, works under it and gives it back.
func Example_hold() {
	ctx := context.Background()

	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()

	client, err := lock.NewClient(lock.Config{Servers: []string{zk.Addr()}})
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)
	desk, err := emergency.NewDesk(emergency.DeskConfig{})
	if err != nil {
		panic(err)
	}
	guard, err := lockguard.New(client, lockguard.WithOverrides(desk))
	if err != nil {
		panic(err)
	}

	backup, err := guard.Acquire(ctx, lockguard.Requirement{
		Scope: "cluster/orders",
		Terms: priority.Terms{Priority: 90, CleanupTimeout: 30 * time.Second},
	})
	if err != nil {
		panic(err)
	}
	released := make(chan error, 1)
	go func() {
		<-backup.Context().Done()
		if overridden, ok := errors.AsType[*lockguard.OverriddenError](context.Cause(backup.Context())); ok {
			fmt.Println("backup stops for", overridden.Override.ID)
		}
		released <- backup.Release(ctx)
	}()

	hold := override.Override{
		ID: "INC-4412", Kind: override.Hold, By: "ana", Reason: "new disk", Until: time.Now().Add(time.Hour),
		Match: override.Match{Scope: "cluster/orders"},
	}
	desk.SetFile([]override.Override{hold}) // it is in force
	err = guard.Override(ctx, hold, func(context.Context) error {
		fmt.Println("ana has the lock")
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("backup released:", <-released)
	// Output:
	// backup stops for INC-4412
	// ana has the lock
	// backup released: <nil>
}
