package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// BenchmarkPreemption: an important request meets a holder in another process.
// "cancel" is from the request to the victim's being told, "start" from the
// victim's release to the preemptor's grant; "read" is one round trip to the
// same server, to compare with: t_… are in round trips.
func BenchmarkPreemption(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		const rounds = 300
		low, high := client(b, server), client(b, server)
		for b.Loop() {
			var cancel, start, read []time.Duration
			for range rounds {
				c, s := preemptOnce(b, low, high)
				cancel, start = append(cancel, c), append(start, s)
				before := time.Now()
				_, err := low.Lock(b.Context(), "never locked")
				require.NoError(b, err)
				read = append(read, time.Since(before))
			}
			for _, series := range []struct {
				name string
				d    []time.Duration
			}{{"cancel", cancel}, {"start", start}, {"read", read}} {
				slices.Sort(series.d)
				b.ReportMetric(micros(series.d[rounds/2]), series.name+"_p50_µs")
				b.ReportMetric(micros(series.d[rounds*99/100]), series.name+"_p99_µs")
			}
			b.ReportMetric(ratio(cancel[rounds/2], read[rounds/2]), "t_cancel_p50")
			b.ReportMetric(ratio(start[rounds/2], read[rounds/2]), "t_start_p50")
			b.ReportMetric(0, "ns/op")
		}
	})
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func preemptOnce(b *testing.B, low, high *lock.Client) (cancel, start time.Duration) {
	ctx, stop := context.WithTimeout(b.Context(), deadline)
	defer stop()
	const scope = "preempted"
	asked := make(chan time.Time, 1)
	victim, err := low.PriorityLock(scope)
	require.NoError(b, err)
	preemptor, err := high.PriorityLock(scope)
	require.NoError(b, err)
	g, err := victim.Acquire(ctx, lock.Request{Terms: priority.Terms{CleanupTimeout: time.Minute}, Notify: func(n lock.Notice) {
		if _, ok := n.(lock.PreemptRequested); ok {
			asked <- time.Now()
		}
	}})
	require.NoError(b, err)
	// The holder's watch is armed by now: Extend reads its node.
	require.NoError(b, g.Extend(ctx, time.Minute))

	granted := make(chan time.Time, 1)
	requested := time.Now()
	go func() {
		h, err := preemptor.Acquire(ctx, lock.Request{Terms: priority.Terms{Priority: 5}})
		granted <- time.Now()
		if err == nil {
			err = h.Release(ctx)
		}
		if err != nil {
			b.Error(err)
		}
		granted <- time.Now()
	}()
	told := <-asked
	released := time.Now()
	require.NoError(b, g.Release(ctx))
	started := <-granted
	<-granted
	return told.Sub(requested), started.Sub(released)
}
