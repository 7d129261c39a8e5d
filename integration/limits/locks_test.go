package limits

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Given one process that holds very many locks, then its session lives on; when
// that ends, each hold learns of it; and all can be given back.
func TestOneProcessHoldsManyLocks(t *testing.T) {
	h := newFixture(t)
	n := size(600, 10_000)
	c := h.client(func(cfg *lock.Config) { cfg.SessionTimeout = 20 * time.Second })
	giveBack := func(grants []*lock.Grant) {
		all(n, func(i int) {
			if err := grants[i].Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	early := h.takeAll(c, "many", n, nil) // tables keep their size
	h.eventually(func() bool { return h.watches() >= n }, "not all watch")
	giveBack(early)
	crowd(2 * n) // when a session ends, each hold looks at that by itself
	h.eventually(func() bool { return h.requests()+h.watches() == 0 }, "somebody is left")
	before := h.sample()

	var lost atomic.Int32
	var first, last atomic.Int64
	note := func(n lock.Notice) {
		if _, ok := n.(lock.Lost); ok {
			now := time.Now().UnixNano()
			first.CompareAndSwap(0, now)
			last.Store(now)
			lost.Add(1)
		}
	}
	start := time.Now()
	grants := h.takeAll(c, "many", n, note)
	taken := time.Since(start)
	require.Equal(t, n, h.requests())
	// each watches its own node, a moment later
	h.eventually(func() bool { return h.watches() >= n }, "not all watch")
	held := h.sample()
	t.Logf("%d locks: taken in %v; for each: heap %d B, stacks %d B, %.3f goroutines, %.2f watches; %d files more",
		n, taken.Round(time.Millisecond), (held.heap-before.heap)/int64(n), (held.stacks-before.stacks)/int64(n),
		float64(held.goroutines-before.goroutines)/float64(n), float64(held.watches-before.watches)/float64(n), held.files-before.files)
	require.Less(t, held.goroutines-before.goroutines, n/10+20, "no goroutine for each lock")
	require.Less(t, (held.heap-before.heap)/int64(n), int64(8<<10), "bytes for each lock")
	require.LessOrEqual(t, held.files, before.files+1)

	// the session lives on
	id, password := c.Session()
	<-time.After(time.Duration(size(0, 30)) * time.Second)
	again, _ := c.Session()
	require.Equal(t, id, again)
	require.Zero(t, lost.Load())
	for _, g := range grants {
		require.NoError(t, g.Check())
	}

	// when it ends, all know
	start = time.Now()
	require.NoError(t, h.Server.Expire(t.Context(), id, password))
	h.eventually(func() bool { return int(lost.Load()) == n }, "not all learn of it")
	t.Logf("%d holds were told of the end of their session within %v of each other, the first %v after it",
		n, time.Duration(last.Load()-first.Load()).Round(time.Microsecond), time.Duration(first.Load()-start.UnixNano()).Round(time.Millisecond))
	h.eventually(func() bool { id, _ := c.Session(); return id != 0 && id != again }, "no new session")

	// and once more, in the new session
	grants = h.takeAll(c, "many", n, nil)
	h.eventually(func() bool { return h.watches() >= n }, "not all watch")
	start = time.Now()
	giveBack(grants)
	t.Logf("given back in %v; %v", time.Since(start).Round(time.Millisecond), h.returnsTo(before, 2<<20))
}

// crowd has so many goroutines at once: what the runtime makes for one it keeps.
func crowd(n int) {
	var there, gone sync.WaitGroup
	leave := make(chan struct{})
	there.Add(n)
	for range n {
		gone.Go(func() {
			there.Done()
			<-leave
		})
	}
	there.Wait()
	close(leave)
	gone.Wait()
}

func (h *fixture) takeAll(c *lock.Client, scope string, n int, notify func(lock.Notice)) []*lock.Grant {
	h.Helper()
	grants := make([]*lock.Grant, n)
	all(n, func(i int) {
		l, err := c.PriorityLock(fmt.Sprintf("%s/%d", scope, i))
		if err == nil {
			grants[i], err = l.Acquire(h.Context(), lock.Request{Terms: priority.Terms{LeaseTimeout: time.Hour}, Notify: notify})
		}
		if err != nil {
			h.Errorf("lock %d: %v", i, err)
		}
	})
	if h.Failed() {
		h.FailNow()
	}
	return grants
}

// Given so many locks with long names in one process that its watches take more
// than one request to ZooKeeper, when the server is gone for a moment, then all are
// still held, and each is notified of new requests.
func TestManyLocksOutliveAServerThatIsGoneForAMoment(t *testing.T) {
	h := newAlone(t)
	n := size(600, 6000) // of 180 bytes each: 108 kB, and more than a server takes at once
	c := h.client(func(cfg *lock.Config) { cfg.SessionTimeout = time.Minute })
	var asked, lost atomic.Int32
	grants := h.takeAll(c, strings.Repeat("s", 150), n, func(n lock.Notice) {
		switch n.(type) {
		case lock.PreemptRequested:
			asked.Add(1)
		case lock.Lost:
			lost.Add(1)
		}
	})
	h.eventually(func() bool { return h.watches() >= n }, "not all watch")
	id, _ := c.Session()

	require.NoError(t, h.Server.Kill())
	require.NoError(t, h.Server.Restart(t.Context()))
	h.eventually(func() bool { return h.watches() >= n }, "not all watch again")
	again, _ := c.Session()
	require.Equal(t, id, again)
	require.Zero(t, lost.Load())

	other := h.client()
	ctx, cancel := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	const some = 50
	for i := range some {
		l := h.Lock(other, grants[i*n/some].Scope())
		crowd.Go(func() { _, _ = l.Acquire(ctx, lock.Request{Terms: priority.Terms{Priority: 1}}) })
	}
	h.eventually(func() bool { return asked.Load() == some }, "not all are preempted")
	cancel()
	crowd.Wait()
	all(n, func(i int) {
		if err := grants[i].Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Given a process that takes and gives back locks, and tries one that is held,
// then after very many times it has no more than after few.
func TestCyclesLeaveNothingBehind(t *testing.T) {
	h := newFixture(t)
	cycles, tries := size(2000, 1_000_000), size(2000, 200_000)
	c, other := h.client(), h.client()
	held := h.acquire(other, "held", lock.Request{Identity: priority.Identity{Owner: "holder"}, Terms: priority.Terms{Priority: 1}})
	h.release(h.acquire(c, "warm", lock.Request{}))
	const workers = 8
	for worker := range workers {
		h.release(h.acquire(c, fmt.Sprintf("cycles/%d", worker), lock.Request{}))
	}
	locks := h.scopes(c)
	var samples []sample
	const parts = 10
	start := time.Now()
	for range parts {
		var crowd sync.WaitGroup
		for worker := range workers {
			mine, busy := h.Lock(c, fmt.Sprintf("cycles/%d", worker)), h.Lock(c, "held")
			crowd.Go(func() {
				for range cycles / parts / workers {
					g, err := mine.Acquire(context.Background(), lock.Request{})
					if err == nil {
						err = g.Release(context.Background())
					}
					if err != nil {
						t.Errorf("cycle: %v", err)
						return
					}
				}
				for range tries / parts / workers {
					_, err := busy.Acquire(context.Background(), lock.Request{Terms: priority.Terms{AcquireTimeout: new(time.Duration)}})
					if !lock.IsNotAcquired(err) {
						t.Errorf("try: %v", err)
						return
					}
				}
			})
		}
		crowd.Wait()
		samples = append(samples, h.sample())
	}
	took := time.Since(start)
	early, middle, late := samples[0], samples[parts/2-1], samples[parts-1]
	t.Logf("%d cycles and %d tries in %v\n10 %%:  %v\n50 %%:  %v\n100 %%: %v", cycles, tries, took.Round(time.Millisecond), early, middle, late)
	h.returnsTo(early, 2<<20)
	require.Equal(t, 1, h.requests())
	require.Equal(t, locks, h.scopes(c), "locks that have a node")
	h.release(held)
}
