package peers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/lockkeeper/lockkeeper/integration/temporal/devserver"
)

// figures are what some locks have cost, all together.
type figures struct {
	Locks   int
	Caller  int // events of the workflows that take the locks
	Others  int // events of workflows beside them
	Signals int
	Tasks   int             // workflow tasks
	Failed  int             // tries
	Bytes   int             // of all histories
	Took    time.Duration   // all of it
	Longest int             // events of the longest history
	around  []time.Duration // what the lock has taken of each attempt, by the worker's clock
	rounds  []time.Duration // for each lock, of each round
}

// run lets workflows take a resource, each as often as told, and adds up their
// histories.
func (l *lane) run(t testing.TB, workflows, locks int) figures {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l.mu.Lock()
	l.around, l.failed = nil, 0
	clear(l.others)
	l.mu.Unlock()

	resource := devserver.Name(t)
	begin := time.Now()
	var runs []client.WorkflowRun
	for i := range workflows {
		options := client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%d", resource, i), TaskQueue: l.queue}
		run, err := l.client.ExecuteWorkflow(ctx, options, "Caller", resource, locks)
		require.NoError(t, err)
		runs = append(runs, run)
	}
	for _, run := range runs {
		require.NoError(t, run.Get(ctx, nil), "%s with %s", run.GetID(), l.name)
	}
	f := figures{Locks: workflows * locks, Took: time.Since(begin)}

	for _, run := range runs {
		f.Caller += f.add(t, l.client, workflow.Execution{ID: run.GetID(), RunID: run.GetRunID()})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.Failed, f.around = l.failed, slices.Clone(l.around)
	for other := range l.others {
		require.NoError(t, l.client.GetWorkflow(ctx, other.ID, other.RunID).Get(ctx, nil))
		f.Others += f.add(t, l.client, other)
	}
	return f
}

// add counts what is in a history, and returns how long it is.
func (f *figures) add(t testing.TB, c client.Client, execution workflow.Execution) int {
	t.Helper()
	events := devserver.History(t, c, execution.ID, execution.RunID)
	for _, event := range events {
		f.Bytes += event.Size()
		switch event.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			f.Signals++
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			f.Tasks++
		default: // is counted, no more
		}
	}
	f.Longest = max(f.Longest, len(events))
	return len(events)
}

// more is what f has cost more than the same work without locks.
func (f figures) more(than figures) figures {
	f.Caller -= than.Caller
	f.Tasks -= than.Tasks
	f.Bytes -= than.Bytes
	f.Took -= than.Took
	f.rounds = slices.Clone(f.rounds)
	for i := range f.rounds {
		f.rounds[i] -= than.rounds[i]
	}
	return f
}

func (f figures) each(n int) float64 { return float64(n) / float64(f.Locks) }

// perLock is the time that each lock has added, as long as it is uncontended.
func (f figures) perLock() time.Duration { return f.Took / time.Duration(f.Locks) }

func median(all []time.Duration) time.Duration { return share(all, 50) }

// share returns below what so many percent are.
func share(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)*percent/100, len(all)-1)]
}
