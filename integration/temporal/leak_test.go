package temporal_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/temporal"
)

// Nothing else runs beside this test: it is not parallel.
func TestWorkerThatHasStoppedLeavesNothing(t *testing.T) {
	temporals.Server(t)
	server := zookeeper.Server(t)
	before := goleak.IgnoreCurrent()
	var roots []string
	t.Run("", func(t *testing.T) {
		f, d := newFarm(t), newDownstream(t)
		y := newYard(t)
		roots = append(roots, f.root, y.root)

		// given a worker with an activity that holds, one that waits, one that has
		// yielded, one whose workflow is gone, and workflows that hold and wait
		patient, yielding := temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyWait}, temporal.Lock{Requirement: requirement(), OnBusy: temporal.BusyRetry, RetryDelay: time.Hour}
		patient.CleanupTimeout = 5 * time.Second
		w := f.workerOn(t, f.guard(t), []temporal.PluginOption{
			temporal.Declare("linger", patient), temporal.Declare("labour", patient), temporal.Declare("yield", yielding),
			temporal.WithStopPolicy(temporal.StopYield),
		}, func(r registry) {
			laborer{newMouth(d, "worker")}.register(r)
			register(r, "yield", func() error { return nil })
		})
		f.start(t, "linger", briskly())
		d.awaits(t, "write")
		f.start(t, "labour", briskly())
		f.waiters(t, 1)
		f.attempts(t, f.start(t, "yield", briskly()), 2)
		gone := f.start(t, "labour", briskly())
		f.waiters(t, 3)
		require.NoError(t, f.client.TerminateWorkflow(t.Context(), gone.GetID(), gone.GetRunID(), "over"))
		stop := y.work()
		y.sleeping(y.start(migration{Steps: []string{"step"}, Then: time.Hour}))
		second := y.start(migration{Steps: []string{"step"}})
		eventually(t, func() bool { return pendingHolder(t, y.c, second) == enums.PENDING_ACTIVITY_STATE_STARTED }, "the second workflow waits")

		// when somebody preempts what can be preempted, and the workers stop
		require.NoError(t, receive(t, f.emergency(t, new(notes)), "the emergency"))
		w.Stop()
		stop()
	})

	// then nobody holds anything or waits for it, and nothing runs on
	ephemerals, err := server.Ephemerals(context.Background())
	require.NoError(t, err)
	for _, path := range ephemerals {
		for _, root := range roots {
			require.False(t, strings.HasPrefix(path, root), path)
		}
	}
	goleak.VerifyNone(t, before)
}
