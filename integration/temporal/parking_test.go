package temporal_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

var anHour = workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: 10 * time.Second}

// A worker has one slot, and one activity may be parked. One waits for a lock and is parked; another one that waits has
// the slot, and what its holder waits for is behind it: when the first one is gone, it is parked in its place.
func TestActivityThatWaitsForALockLeavesItsSlotToTheOneThatTheHolderWaitsFor(t *testing.T) {
	t.Parallel()
	// given
	f := newFixture(t)
	migrate := f.holds()
	repair := f.holds(func(r *lockguard.Requirement) { r.Scope += "/b" })
	f.work(setup{
		lock:       temporal.Lock{OnBusy: temporal.BusyWait},
		activities: map[string]any{"migrate": nothing},
		plain:      map[string]any{"repair": nothing, "finish": func(context.Context) error { repair(); return nil }},
		plugin: []temporal.PluginOption{temporal.WithMaxParked(1), temporal.Declare("repair", temporal.Lock{
			Requirement: lockguard.Requirement{Scope: scope + "/b"}, OnBusy: temporal.BusyWait,
		})},
		options: worker.Options{MaxConcurrentActivityExecutionSize: 1},
	})
	parked := f.start("migrate", anHour)
	f.started(parked, 1)
	waiting := f.start("repair", anHour) // has a slot: the other one is parked
	f.started(waiting, 1)
	f.heartbeats(waiting, 1) // long after it would have parked

	// when
	migrate()
	completed[any](f, parked)
	next := f.start("finish", anHour)

	// then
	completed[any](f, next)
	completed[any](f, waiting)
}
