package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

const many = 10_000

// BenchmarkMemory: what one process needs for each lock that it holds, and for
// each request that waits, goroutine included.
func BenchmarkMemory(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		for b.Loop() {
			holder, waiter := client(b, server), client(b, server)
			ctx, stop := context.WithCancel(b.Context())

			before := inUse()
			grants := make([]*lock.Grant, many)
			each(func(i int) {
				l, err := holder.PriorityLock(fmt.Sprintf("memory/%d", i))
				require.NoError(b, err)
				grants[i], err = l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "bench"}})
				require.NoError(b, err)
			})
			for _, g := range grants { // the watches are armed
				require.NoError(b, g.Extend(ctx, priority.DefaultLeaseTimeout))
			}
			held := inUse()

			var queued, gone sync.WaitGroup
			for i := range many {
				queued.Add(1)
				gone.Go(func() {
					l, err := waiter.PriorityLock(fmt.Sprintf("memory/%d", i))
					if err != nil {
						b.Error(err)
					}
					_, err = l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "bench"}, Notify: func(n lock.Notice) {
						if _, ok := n.(lock.Queued); ok {
							queued.Done()
						}
					}})
					if err == nil {
						b.Error("granted while held")
					}
				})
			}
			queued.Wait()
			waiting := inUse()

			b.ReportMetric(float64(held-before)/many, "B/held")
			b.ReportMetric(float64(waiting-held)/many, "B/waiting")
			b.ReportMetric(0, "ns/op")
			stop()
			gone.Wait()
			each(func(i int) { require.NoError(b, grants[i].Release(context.Background())) })
		}
	})
}

// each runs f for all of many, some at a time.
func each(f func(int)) {
	var all sync.WaitGroup
	for part := range 64 {
		all.Go(func() {
			for i := part; i < many; i += 64 {
				f(i)
			}
		})
	}
	all.Wait()
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
