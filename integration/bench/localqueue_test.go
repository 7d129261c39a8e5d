package bench

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Contestants whose clients are goroutines of one process, with one session.
var (
	peerThreads = contestant{"zk.Lock", zkLockThreads}
	queued      = contestant{"PriorityLock", func(t testing.TB, server string, n int) func(int, string, func()) error {
		return productThreads(t, server, n, 0)
	}}
	inLine = contestant{"LocalQueue", func(t testing.TB, server string, n int) func(int, string, func()) error {
		return productThreads(t, server, n, 32)
	}}
)

// BenchmarkLocalQueue: a hundred goroutines of one process want one lock.
func BenchmarkLocalQueue(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		const threads = 100
		for _, work := range []time.Duration{0, time.Millisecond} {
			b.Run("work="+work.String(), func(b *testing.B) {
				one := func(int) string { return "threads-" + work.String() }
				inside := nothing
				if work > 0 {
					inside = pretend(work)
				}
				for b.Loop() {
					medians := rates(b, server, threads, one, inside, peerThreads, queued, inLine)
					for name, rate := range medians {
						b.ReportMetric(rate, name+"/s")
					}
					b.ReportMetric(medians[inLine.name]/medians[peerThreads.name], "x_zk.Lock")
					b.ReportMetric(medians[inLine.name]/medians[queued.name], "x_none")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	})
}

func zkLockThreads(t testing.TB, server string, threads int) func(int, string, func()) error {
	conn := connect(t, server, 1)[0]
	locks := make([]*zk.Lock, threads)
	return func(i int, lock string, work func()) error {
		if locks[i] == nil {
			locks[i] = zk.NewLock(conn, "/zklock-threads/"+lock, zk.WorldACL(zk.PermAll))
		}
		if err := locks[i].Lock(); err != nil {
			return err
		}
		work()
		return locks[i].Unlock()
	}
}

func productThreads(t testing.TB, server string, _, line int) func(int, string, func()) error {
	c := client(t, server, func(cfg *lock.Config) { cfg.LocalQueue = line })
	ctx := cancellable(t)
	return func(_ int, scope string, work func()) error {
		l, err := c.PriorityLock(scope)
		require.NoError(t, err)
		g, err := l.Acquire(ctx, lock.Request{Identity: priority.Identity{Owner: "bench"}})
		if err != nil {
			return err
		}
		work()
		return g.Release(ctx)
	}
}
