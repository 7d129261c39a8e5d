package metrics

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
)

func holds(class string, mode priority.Mode, since time.Duration) live.Holder {
	return live.Holder{Contender: live.Contender{ID: "planted-id", Owner: secretOwner, Class: class, Mode: mode}, Since: start.Add(-since), LeaseLeft: 30_000}
}

func waitsFor(class string, mode priority.Mode, since time.Duration) live.Waiter {
	return live.Waiter{Contender: live.Contender{ID: "planted-id", Owner: secretOwner, Class: class, Mode: mode}, WaitingSince: start.Add(-since)}
}

// A view is a cluster whose snapshots a test sets.
type view struct {
	board
	seen atomic.Pointer[live.Snapshot]
	now  time.Time
}

func newView(t *testing.T, options ...Option) *view {
	t.Helper()
	v := &view{board: newBoard(t), now: start}
	locks, err := NewLocks(v.provider.Meter(Scope), options...)
	require.NoError(t, err)
	require.NoError(t, locks.Cluster(v.seen.Load, func() time.Time { return v.now }))
	return v
}

// cluster is what is said of the whole cluster.
func (v *view) cluster(t *testing.T) map[string]float64 {
	t.Helper()
	seen := v.read(t)
	for key := range seen {
		require.NotContains(t, key, "planted")
		if key != "lockkeeper.cluster.visible{}" && len(key) > 16 && key[:16] != "lockkeeper.lock." {
			delete(seen, key)
		}
	}
	return seen
}

func TestHoldersAndWaitersOfAllProcessesAreAddedUpByClass(t *testing.T) {
	v := newView(t, WithClasses("declared"))
	v.seen.Store(&live.Snapshot{Complete: true, Locks: []live.Lock{
		{Scope: "tenant/planted-1/billing", At: start, Holders: []live.Holder{holds(template, priority.Exclusive, 90*time.Second)}, Waiters: []live.Waiter{
			waitsFor(template, priority.Exclusive, 5*time.Second), waitsFor(template, priority.Shared, 30*time.Second),
		}},
		{Scope: "tenant/planted-2/billing", At: start, Holders: []live.Holder{holds(template, priority.Shared, time.Second), holds(template, priority.Shared, time.Second), holds("", priority.Exclusive, time.Second)}},
	}})
	want := map[string]float64{
		"lockkeeper.cluster.visible{}": 1,
		"lockkeeper.lock.holder.count{lock.class=tenant/{id}/billing,lock.mode=exclusive}": 1,
		"lockkeeper.lock.holder.count{lock.class=tenant/{id}/billing,lock.mode=shared}":    2,
		"lockkeeper.lock.waiter.count{lock.class=tenant/{id}/billing,lock.mode=exclusive}": 1,
		"lockkeeper.lock.waiter.count{lock.class=tenant/{id}/billing,lock.mode=shared}":    1,
		"lockkeeper.lock.oldest_wait.age{lock.class=tenant/{id}/billing}":                  30,
		"lockkeeper.lock.oldest_hold.age{lock.class=tenant/{id}/billing}":                  90,
		"lockkeeper.lock.overdue{lock.class=tenant/{id}/billing}":                          0,
		"lockkeeper.lock.holder.count{lock.class=_undeclared,lock.mode=exclusive}":         1,
		"lockkeeper.lock.waiter.count{lock.class=_undeclared,lock.mode=exclusive}":         0,
		"lockkeeper.lock.oldest_wait.age{lock.class=_undeclared}":                          0,
		"lockkeeper.lock.oldest_hold.age{lock.class=_undeclared}":                          1,
		"lockkeeper.lock.overdue{lock.class=_undeclared}":                                  0,
		"lockkeeper.lock.holder.count{lock.class=declared,lock.mode=exclusive}":            0,
		"lockkeeper.lock.waiter.count{lock.class=declared,lock.mode=exclusive}":            0,
		"lockkeeper.lock.oldest_wait.age{lock.class=declared}":                             0,
		"lockkeeper.lock.oldest_hold.age{lock.class=declared}":                             0,
		"lockkeeper.lock.overdue{lock.class=declared}":                                     0,
	}
	require.Equal(t, want, v.cluster(t))

	// time goes on without anything happening
	v.now = start.Add(time.Minute)
	require.InDelta(t, 150, v.cluster(t)["lockkeeper.lock.oldest_hold.age{lock.class=tenant/{id}/billing}"], 0)
	require.InDelta(t, 3, v.cluster(t)["lockkeeper.lock.overdue{lock.class=tenant/{id}/billing}"], 0, "their leases had half a minute left")

	// the clocks of two servers may differ
	v.now = start.Add(-time.Hour)
	require.Zero(t, v.cluster(t)["lockkeeper.lock.oldest_hold.age{lock.class=tenant/{id}/billing}"])

	// all have gone: 0, not what was
	v.seen.Store(&live.Snapshot{Complete: true})
	gone := v.cluster(t)
	require.Len(t, gone, len(want))
	for key, n := range gone {
		if key != "lockkeeper.cluster.visible{}" {
			require.Zero(t, n, key)
		}
	}
}

func TestNothingIsSaidOfAClusterThatIsNotSeen(t *testing.T) {
	v := newView(t, WithClasses(template))
	blind := map[string]float64{"lockkeeper.cluster.visible{}": 0}
	require.Equal(t, blind, v.cluster(t), "there is no snapshot")

	locks := []live.Lock{{Scope: "a", At: start, Holders: []live.Holder{holds(template, priority.Exclusive, time.Second)}}}
	v.seen.Store(&live.Snapshot{Locks: locks})
	require.Equal(t, blind, v.cluster(t), "not everything has been looked at")

	v.seen.Store(&live.Snapshot{Complete: true, Locks: locks})
	require.Len(t, v.cluster(t), 6)
	v.seen.Store(&live.Snapshot{Complete: true, Locks: locks, Blind: &live.Blind{Since: start}})
	require.Equal(t, blind, v.cluster(t), "ZooKeeper does not answer: what was true is not shown")
	v.seen.Store(&live.Snapshot{Complete: true, Locks: locks})
	require.InDelta(t, 1, v.cluster(t)["lockkeeper.lock.holder.count{lock.class=tenant/{id}/billing,lock.mode=exclusive}"], 0)
}

func TestClassesOfOthersAreBoundedAsWell(t *testing.T) {
	v := newView(t, WithMaxClasses(3), WithClasses("declared"))
	lock := live.Lock{Scope: "a"}
	for i := range 1000 {
		lock.Waiters = append(lock.Waiters, waitsFor(fmt.Sprint("class/", i), priority.Exclusive, time.Second), waitsFor("bad\x00\n", priority.Exclusive, time.Second))
	}
	v.seen.Store(&live.Snapshot{Complete: true, Locks: []live.Lock{lock}})
	seen := v.cluster(t)
	require.Len(t, seen, 1+4*5, "visible; declared, two of the others, and the rest")
	require.InDelta(t, 1998, seen["lockkeeper.lock.waiter.count{lock.class=_other,lock.mode=exclusive}"], 0)
}

func TestManyReadTheClusterWhileItChanges(t *testing.T) {
	v := newView(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 12 {
				v.seen.Store(&live.Snapshot{Complete: true, Locks: []live.Lock{{Holders: []live.Holder{holds(fmt.Sprint(g, i%3), priority.Shared, time.Second)}}}})
				require.NotEmpty(t, v.read(t))
			}
		})
	}
	wg.Wait()
}
