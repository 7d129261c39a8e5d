// Package compaction is a job of a team that uses Lockkeeper, and how they test
// that it gives way: see compaction_test.go, and docs/howto/test-my-job.md.
package compaction

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

// A Store is what the job works on.
type Store struct{ State string }

// Compact compacts the store under its lock. When something more important
// asks for the lock, it puts the store back as it was, still under the lock.
func Compact(ctx context.Context, guard *lockguard.Guard, store *Store) error {
	return guard.Do(ctx, lockguard.Requirement{
		Scope: "cluster/orders", Terms: priority.Terms{
			Priority: 20, CleanupTimeout: 30 * time.Second,
			LeaseTimeout: 3 * time.Hour,
		},
		// longer than the work: only a higher priority interrupts it
	}, func(ctx context.Context) error {
		store.State = "half compacted"
		select {
		case <-time.After(2 * time.Hour): // it is a large store
			store.State = "compacted"
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func(ctx context.Context) error {
		select {
		case <-time.After(20 * time.Second):
			store.State = "as before"
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}
