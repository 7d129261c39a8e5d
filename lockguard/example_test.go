package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func compact(context.Context, lockguard.Token) error { return nil }
func restore(context.Context) error                  { return nil }

func Example() {
	client, err := recipes.NewClient(recipes.Config{Servers: []string{"localhost:2181"}})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := lockguard.New(client, lockguard.WithObserver(lockguard.LogObserver(slog.Default())))
	if err != nil {
		log.Fatal(err)
	}

	err = guard.Do(context.Background(), lockguard.Requirement{
		Scope: "cluster/orders/resource/users",
		Terms: priority.Terms{
			Priority:       10,
			CleanupTimeout: 30 * time.Second,
		},
	}, func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		return compact(ctx, hold.Token()) // returns soon after ctx has ended
	}, func(ctx context.Context) error {
		return restore(ctx) // only after an interruption, at most 30s
	})

	if preempted, ok := errors.AsType[*lockguard.PreemptedError](err); ok {
		fmt.Println("gave way to", preempted.By)
	}
}
