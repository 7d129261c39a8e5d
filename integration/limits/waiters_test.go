package limits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Given a lock that is held, when ever more requests wait for it, then all
// stand in the queue, it is handed on from one to the next, and all can leave.
func TestQueueGrowsAndShrinks(t *testing.T) {
	h := newFixture(t)
	sizes := []int{10, 100, 400}
	if *full {
		sizes = []int{10, 100, 1000, 10_000}
	}
	clients := make([]*lock.Client, 4)
	for i := range clients {
		clients[i] = h.client()
	}
	holder := h.client()
	h.release(h.acquire(holder, "warm", lock.Request{}))
	for _, c := range clients {
		h.release(h.acquire(c, "warm", lock.Request{}))
	}
	// The runtime keeps what it has made for the most goroutines there ever were, and
	// tables keep their size: all that a second queue of a length needs goes with it.
	h.queue(holder, clients, sizes[len(sizes)-1], true)
	for _, n := range sizes {
		h.queue(holder, clients, n, false)
	}
}

func (h *fixture) queue(holder *lock.Client, clients []*lock.Client, n int, warmUp bool) {
	scope := fmt.Sprintf("queue of %d", n)
	before := h.sample()
	first := h.acquire(holder, scope, lock.Request{Identity: priority.Identity{Owner: "holder"}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		crowd           sync.WaitGroup
		inside, granted atomic.Int32
		turns           = int32(min(n-1, 100))
		reached, leave  = make(chan struct{}), make(chan struct{})
	)
	start := time.Now()
	for i := range n {
		l := h.Lock(clients[i%len(clients)], scope)
		crowd.Go(func() {
			g, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: fmt.Sprintf("waiter %d", i)}})
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					h.Errorf("waiter %d: %v", i, err)
				}
				return
			}
			if inside.Add(1) != 1 {
				h.Errorf("waiter %d is not alone", i)
			}
			if granted.Add(1) == turns {
				close(reached)
				<-leave
			}
			inside.Add(-1)
			if err := g.Release(context.Background()); err != nil {
				h.Errorf("waiter %d: %v", i, err)
			}
		})
	}
	h.eventually(func() bool { return h.requests() == n+1 }, "not all of %d stand in the queue", n)
	joined := time.Since(start)
	// requests that still evaluate the queue need memory for that
	full := h.sample()
	h.eventually(func() bool {
		last := full
		full = h.sample()
		return full.heap > last.heap-last.heap/50 && full.watches == last.watches
	}, "they look around for ever")

	start = time.Now()
	h.release(first)
	select {
	case <-reached:
	case <-time.After(5 * soon):
		require.FailNow(h, "the lock is not handed on")
	}
	turn := time.Since(start) / time.Duration(turns)
	state, err := clients[0].Lock(h.Context(), scope)
	require.NoError(h, err)
	require.Len(h, state.Holders, 1)
	require.Len(h, state.Waiters, n-int(turns))

	start = time.Now()
	cancel()
	h.eventually(func() bool { return h.requests() == 1 }, "not all have left")
	left := time.Since(start)
	close(leave)
	crowd.Wait()
	if warmUp {
		return
	}
	after := h.returnsTo(before, 2<<20)
	per := func(a, b int64) int64 { return (b - a) / int64(n) }
	h.Logf("%d waiters: joined in %v, %v for each hand-over of %d, left in %v; for each: heap %d B, stacks %d B, %.1f goroutines, %.2f watches; a list of them takes %d KiB; after that %v (before: %v)",
		n, joined.Round(time.Millisecond), turn.Round(10*time.Microsecond), turns, left.Round(time.Millisecond),
		per(before.heap, full.heap), per(before.stacks, full.stacks),
		float64(full.goroutines-before.goroutines)/float64(n), float64(full.watches-before.watches)/float64(n), (n+1)*52>>10, after, before)
}

// Given readers that wait behind a writer, who come one by one and each look at all
// who are there, then the last need no more memory than the first.
func TestMemoryOfAWaiterDoesNotGrowWithTheQueue(t *testing.T) {
	h := newFixture(t)
	few, many := size(150, 1000), size(600, 5000)
	holder, c := h.client(), h.client()
	h.Hold(h.Lock(holder, "readers wait"), "writer")
	n := 0
	join := func(upTo int) sample {
		for ; n < upTo; n++ {
			h.Acquire(h.Lock(c, "readers wait"), "reader", harness.Shared).Queued()
		}
		return h.sample()
	}
	first := join(1)
	for still := 0; still < 5; { // what tests before this one have left goes
		h.eventually(func() bool {
			now := h.sample()
			if still++; now.heap+now.stacks < first.heap+first.stacks-64<<10 {
				still = 0
			}
			first = now
			return true
		}, "never at rest")
	}
	early := join(few)
	late := join(many)
	of := func(a, b sample, n int) int64 { return (b.heap + b.stacks - a.heap - a.stacks) / int64(n) }
	each, last := of(first, early, few-1), of(early, late, many-few)
	t.Logf("bytes for each waiter: %d for the first %d, %d for each up to %d", each, few, last, many)
	require.Less(t, last, each+each/4+6<<10)
}

// Given a queue that is as long as it may be, when one more comes, then it gets
// an error and leaves nothing behind; one that comes before them all waits.
func TestFullQueueTakesNoMore(t *testing.T) {
	h := newFixture(t)
	limit := func(cfg *lock.Config) { cfg.QueueLimit = 16 }
	c, late := h.client(limit), h.client(limit)
	holder := h.acquire(c, "full", lock.Request{Identity: priority.Identity{Owner: "holder"}, Terms: priority.Terms{Priority: 9}})
	var waiters []*harness.Request
	for range 15 {
		waiters = append(waiters, h.Acquire(h.Lock(c, "full"), "waiter", harness.At(1)))
	}
	h.eventually(func() bool { return h.requests() == 16 }, "not all stand in the queue")

	for _, client := range []*lock.Client{late, c} { // one that looks before it joins, and one that need not
		_, err := h.Lock(client, "full").Acquire(h.Context(), lock.Request{Identity: priority.Identity{Owner: "late"}})
		var full *lock.QueueFullError
		require.ErrorAs(t, err, &full)
		require.Equal(t, lock.QueueFullError{Scope: "full", Length: 16, Ahead: 16, Limit: 16}, *full)
		require.True(t, lock.IsNotAcquired(err))
		h.eventually(func() bool { return h.requests() == 16 }, "it has not left")
	}

	// one that goes before them has its place
	first := h.Acquire(h.Lock(late, "full"), "first", harness.At(5))
	first.Queued()
	for _, w := range append(waiters, first) {
		w.Cancel()
		require.ErrorIs(t, w.Refused(), context.Canceled)
	}
	h.release(holder)
	h.eventually(func() bool { return h.requests() == 0 }, "somebody is left")
}
