package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/zkclient"
)

// Given very many locks with queues, then a live view of them reads each once, shows a change, and leaves nothing
// behind.
func TestLiveViewOfManyLocksWithManyWaiters(t *testing.T) {
	h := newFixture(t)
	locks := size(60, 1000)
	const each = 10 // waiters

	// given the locks
	holder := h.client()
	grants := h.takeAll(holder, "lock", locks, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var queue sync.WaitGroup
	crews := []*lock.Client{h.client(), h.client(), h.client(), h.client()}
	for i := range locks * each {
		l := h.Lock(crews[i%len(crews)], fmt.Sprintf("lock/%d", i/each))
		queue.Go(func() {
			if g, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("worker-%d", i)}, Terms: priority.Terms{LeaseTimeout: time.Hour}}); err == nil {
				<-ctx.Done() // what is to be seen stays until it was
				_ = g.Release(context.Background())
			}
		})
	}
	n := locks * (1 + each)
	h.eventually(func() bool { return h.requests() == n }, "not all are in the queues")

	// when somebody looks
	viewer := h.client()
	var reads atomic.Int64
	viewer.OnOperation(func(o zkclient.Operation) {
		if o.Name != "sync" { // which keeps the session alive
			reads.Add(1)
		}
	})
	before := h.sample()
	look, err := viewer.Lookout(lock.LookoutOptions{})
	require.NoError(t, err)
	b, err := live.New(live.Options{Source: look, Now: viewer.Now})
	require.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	start := time.Now()
	work.Go(func() { _ = b.Run(running) })
	h.eventually(func() bool { return b.Now().Complete }, "not all has been seen")
	took := time.Since(start)
	h.eventually(func() bool { return b.Now().Totals.Waiters == locks*each }, "not all waiters are shown")
	rooms := min(256, locks)
	require.LessOrEqual(t, reads.Load(), int64(1+rooms+3*locks+n+20), "each once, and locks again whose waiters still settle")
	after := h.sample()
	t.Logf("%d locks with %d waiters: seen in %v by %d requests", locks, locks*each, took.Round(time.Millisecond), reads.Load())
	t.Logf("for each request: heap %d B, %.2f watches; %d goroutines more",
		(after.heap-before.heap)/int64(n), float64(after.watches-before.watches)/float64(n), after.goroutines-before.goroutines)
	require.Less(t, (after.heap-before.heap)/int64(n), int64(16<<10), "bytes for each request")
	require.Less(t, after.goroutines-before.goroutines, 20, "no goroutine for each lock")

	// then a change is shown
	victim := grants[0]
	start = time.Now()
	go func() { _ = victim.Release(context.Background()) }()
	h.eventually(func() bool {
		now := b.Now()
		return len(now.Locks) > 0 && len(now.Locks[0].Holders) == 1 && now.Locks[0].Holders[0].ID != victim.ID()
	}, "the hand-over is not shown")
	t.Logf("a hand-over is shown within %v", time.Since(start).Round(time.Millisecond))
	start = time.Now()
	text, err := json.Marshal(b.Now().Locks)
	require.NoError(t, err)
	t.Logf("all locks as JSON: %d KiB in %v; timeline, heat: %v", len(text)>>10, time.Since(start).Round(time.Millisecond), timeOf(func() {
		_ = b.Timeline("lock/0", time.Time{}, time.Time{})
		_ = b.Heat(time.Now().Add(-time.Hour), time.Time{}, 60)
	}))

	// and all leave
	start = time.Now()
	cancel()
	queue.Wait()
	all(locks, func(i int) { _ = grants[i].Release(context.Background()) })
	h.eventually(func() bool { return b.Now().Totals.Waiters+b.Now().Totals.Holders == 0 }, "somebody is shown who is not there")
	t.Logf("all gone, as shown within %v", time.Since(start).Round(time.Millisecond))
	h.eventually(func() bool { return h.watches() <= locks+1 }, "more than the locks are watched")
	stop()
	work.Wait()
}

func timeOf(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start).Round(100 * time.Microsecond)
}
