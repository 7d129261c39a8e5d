package peers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a lock costs in history is the same in each run, but for peers whose
// signals may meet in one workflow task: theirs are bounds.
func TestEventsOfOneLock(t *testing.T) {
	all := make(map[string]figures)
	for _, c := range contestants() {
		all[c.name] = c.start(t).run(t, 1, 1)
	}
	nothing := all["nothing"]
	require.Zero(t, nothing.Others+nothing.Signals)

	lock := all["activity lock"]
	require.Equal(t, nothing.Caller, lock.Caller, "events")
	require.Equal(t, nothing.Tasks, lock.Tasks, "workflow tasks")
	require.Zero(t, lock.Others+lock.Signals)
	require.Len(t, nothing.attempt, 1)
	require.Len(t, lock.attempt, 1)
	require.Len(t, lock.around, 1, "the lock is inside of the attempt")

	mutex := all["mutex workflow"].more(nothing)
	require.Equal(t, 3, mutex.Signals)
	require.GreaterOrEqual(t, mutex.Caller, 7)
	require.GreaterOrEqual(t, mutex.Others, 13)
	hold := all["workflow lock"].more(nothing)
	require.Equal(t, 1, hold.Signals)
	require.Zero(t, hold.Others)
	require.LessOrEqual(t, 2*hold.Caller, mutex.Caller+mutex.Others)
	permit := all["permit child"].more(nothing)
	require.Equal(t, 1, permit.Signals)
	require.GreaterOrEqual(t, permit.Caller, 8)
	require.GreaterOrEqual(t, permit.Others, 10)
}

// Each contestant excludes, else its figures would be those of something else.
func TestEachContestantLetsOneAtATimeIn(t *testing.T) {
	for _, c := range contestants() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := c.start(t)
			l.linger.Store(int64(20 * time.Millisecond))
			l.run(t, 4, 2)
		})
	}
}
