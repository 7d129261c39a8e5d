package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

var guard *lockguard.Guard // from lockguard.New

func move(context.Context, map[string]lockguard.Token) error { return nil }

// Work under two locks: both or none, and told to go when either has to go.
func ExampleGuard_DoAll() {
	err := guard.DoAll(context.Background(), []lockguard.Requirement{
		{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}},
		{Scope: "cluster/users", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}},
	}, func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		return move(ctx, hold.Tokens()) // each resource gets the token of its scope
	}, restore)

	if preempted, ok := errors.AsType[*lockguard.PreemptedError](err); ok {
		fmt.Printf("gave both locks back: %s wanted %s\n", preempted.By, preempted.Scope)
	}
}

// executeWithLock: at most five tries of two seconds each, with growing pauses
// between them, and then the work, once.
func ExampleGuard_Retrying() {
	retrying, err := guard.Retrying(lockguard.Retry{Attempts: 5, Pause: 200 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = retrying.Do(context.Background(), lockguard.Requirement{
		Scope: "cluster/orders",
		Terms: priority.Terms{AcquireTimeout: new(2 * time.Second)},
	}, func(ctx context.Context) error {
		hold, _ := lockguard.FromContext(ctx)
		return compact(ctx, hold.Token())
	})

	if gaveUp, ok := errors.AsType[*lockguard.RetryError](err); ok {
		fmt.Printf("not acquired after %d attempts in %s\n", gaveUp.Attempts, gaveUp.Elapsed)
	}
}

// acquireWithRetry: the lock without the work.
func ExampleGuard_Retrying_acquire() {
	retrying, err := guard.Retrying(lockguard.Retry{MaxElapsed: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	hold, err := retrying.Acquire(context.Background(), lockguard.Requirement{
		Scope: "cluster/orders",
		Terms: priority.Terms{AcquireTimeout: new(time.Duration(0))}, // try; do not queue
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = compact(hold.Context(), hold.Token())
	fmt.Println(errors.Join(err, hold.Release(context.Background())))
}
