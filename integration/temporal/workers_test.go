package temporal_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// Workers are killed at random, each in the middle of its critical section.
func TestTokensGrowWhileWorkersAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	const activities, kills = 30, 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f, d := newFarm(t), newDownstream(t)

	// given three workers, and what kills some of them as they write
	var mu sync.Mutex
	crew, killed := make(map[string]*crewman), []string(nil)
	victims := make(chan string, kills)
	next := 1 + random.IntN(20)
	d.mu.Lock()
	d.heard = func(w word) {
		if w.What != "write" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if next--; next == 0 && len(killed) < kills {
			next = 1 + random.IntN(30)
			killed = append(killed, w.Worker)
			crew[w.Worker].kill() // it has had no answer yet
			victims <- w.Worker
		}
	}
	d.mu.Unlock()
	hire := func(name string) {
		t.Helper()
		c := f.process(t, d, name)
		mu.Lock()
		defer mu.Unlock()
		crew[name] = c
	}
	for i := range 3 {
		hire(fmt.Sprint("worker ", i))
	}

	// when they work, and others come for those that are killed
	var runs []client.WorkflowRun
	for range activities {
		runs = append(runs, f.start(t, "labour", briskly()))
	}
	for i := range kills {
		receive(t, victims, "a kill")
		hire(fmt.Sprint("worker ", 3+i))
	}

	// then all is done, one at a time; what was done when its worker was killed, before
	// Temporal knew, is done again
	for _, run := range runs {
		_, err := result[any](t, run)
		require.NoError(t, err)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, killed, kills)
	d.oneAtATime(t, killed)
	done := make(map[string]bool)
	for _, w := range d.said("leave") {
		done[w.Key] = true
	}
	require.Len(t, done, activities)
	require.GreaterOrEqual(t, len(d.said("enter")), activities+kills)
}

func TestNextAttemptAfterAKilledWorkerRunsElsewhereUnderALargerToken(t *testing.T) {
	t.Parallel()
	f, d := newFarm(t), newDownstream(t)
	killed := f.process(t, d, "killed")
	run := f.start(t, "linger", briskly())
	first := d.awaits(t, "write")

	// when the worker is killed that holds the lock
	killed.kill()
	f.workerOn(t, f.guard(t), lingering(temporal.Lock{Requirement: requirement()}), laborer{newMouth(d, "other")}.register)

	// then the next attempt waits until the session of the first has ended
	token, err := result[lockguard.Token](t, run)
	require.NoError(t, err)
	second := d.awaits(t, "write", by("other"))
	require.Greater(t, token, first.Token)
	require.Equal(t, token, second.Token)
	require.EqualValues(t, 2, second.Attempt)
	f.isFree(t)
}

// A worker with one attempt cannot be helped, but nobody waits for its lock for
// longer than for its session.
func TestOnlyAttemptOfAKilledWorkerFailsAndItsLockIsFree(t *testing.T) {
	t.Parallel()
	f, d := newFarm(t), newDownstream(t)
	killed := f.process(t, d, "killed")
	options := briskly()
	options.RetryPolicy.MaximumAttempts = 1
	run := f.start(t, "linger", options)
	d.awaits(t, "write")
	killed.kill()
	f.isFree(t)
	f.onlyWorkflows(t)
	_, err := result[any](t, run)
	require.ErrorContains(t, err, "Heartbeat")
}

// onlyWorkflows runs a worker that executes no activities.
func (f farm) onlyWorkflows(t *testing.T) {
	t.Helper()
	w := worker.New(f.client, f.queue, worker.Options{LocalActivityWorkerOnly: true})
	w.RegisterWorkflow(single)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}
