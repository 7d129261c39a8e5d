package classic

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// N8
func TestTriesOnAHeldMutexCostNoMemory(t *testing.T) {
	h := shareHouse(t)

	// given a held mutex, and a client that has tried
	h.hold("holder", h.mutex(h.client()).Acquire)
	c := h.client()
	tries := func(n int) {
		var crowd sync.WaitGroup
		for range 8 {
			m := h.mutex(c)
			crowd.Go(func() {
				for range n / 8 {
					_, err := m.TryAcquire(t.Context())
					if _, busy := errors.AsType[*recipes.NotAcquiredError](err); !busy {
						t.Errorf("try: %v", err)
						return
					}
				}
			})
		}
		crowd.Wait()
	}
	tries(5_000) // the embedded server remembers so many requests, and no more
	watches, goroutines, before := len(h.watched()), goleak.IgnoreCurrent(), heap()

	// when it tries ten thousand times
	tries(10_000)

	// then it needs no more memory, and the server keeps nothing for it
	require.NoError(t, goleak.Find(goroutines))
	grown := int64(heap()) - int64(before)
	t.Logf("the heap of %d KiB grew by %d bytes", before>>10, grown)
	require.Less(t, grown, int64(256<<10), "10,000 tries of 26 bytes or more each")
	require.Len(t, h.watched(), watches)
	require.Len(t, h.ephemerals(), 1)
}

// N8 for those who wait: the session remembers nobody who has left.
func TestWaitsThatAreCancelledCostNoMemory(t *testing.T) {
	h := shareHouse(t)
	h.hold("holder", h.mutex(h.client()).Acquire)
	c := h.client()
	waits := func(n int) {
		var crowd sync.WaitGroup
		for range 8 {
			crowd.Go(func() {
				for range n / 8 {
					ctx, cancel := context.WithCancel(t.Context())
					m := h.mutex(c, func(o *recipes.MutexOptions) {
						o.Notify = func(recipes.Notice) { cancel() }
					})
					if _, err := m.Acquire(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("wait: %v", err)
					}
					cancel()
				}
			})
		}
		crowd.Wait()
	}
	waits(400)
	goroutines, before := goleak.IgnoreCurrent(), heap()

	waits(3_000)

	require.NoError(t, goleak.Find(goroutines))
	grown := int64(heap()) - int64(before)
	t.Logf("the heap of %d KiB grew by %d bytes", before>>10, grown)
	require.Less(t, grown, int64(512<<10), "3,000 waits of 200 bytes or more each")
	require.Len(t, h.ephemerals(), 1)
}

// heap returns the bytes that live after a collection.
func heap() uint64 {
	var m runtime.MemStats
	for range 3 { // what is freed by a finalizer, or from a pool, goes later
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
