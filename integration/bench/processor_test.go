package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outlay is what this process needs for a cycle: the server is another one.
type outlay struct {
	micros float64 // of a processor
	allocs float64
	bytes  float64
}

// BenchmarkProcessor: what a cycle of acquire and release costs the client itself, in processor time and
// allocations. Contestants take turns in an order that is drawn anew for each round; figures are the medians.
func BenchmarkProcessor(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
				own := func(client int) string { return fmt.Sprintf("processor-%d-%d", clients, client) }
				for b.Loop() {
					reportOutlays(b, outlays(b, server, clients, own, raw, bare, product), raw.name, bare.name, product.name)
				}
			})
		}
		b.Run("threads=100", func(b *testing.B) {
			one := func(int) string { return "processor-threads" }
			for b.Loop() {
				reportOutlays(b, outlays(b, server, 100, one, peerThreads, inLine), peerThreads.name, inLine.name)
			}
		})
	})
}

func outlays(b *testing.B, server string, clients int, lock func(int) string, contestants ...contestant) map[string][]outlay {
	b.Helper()
	const rounds, length = 15, 300 * time.Millisecond
	cycles := make([]func(int, string, func()) error, len(contestants))
	for i, c := range contestants {
		cycles[i] = c.setup(b, server, clients)
		run(b, cycles[i], clients, lock, nothing, warmUp)
	}
	all := make(map[string][]outlay)
	for range rounds {
		for _, i := range rand.Perm(len(contestants)) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			used, began := processorTime(b), time.Now()
			rate := run(b, cycles[i], clients, lock, nothing, length)
			done := rate * time.Since(began).Seconds()
			used = processorTime(b) - used
			runtime.ReadMemStats(&after)
			all[contestants[i].name] = append(all[contestants[i].name], outlay{
				micros: float64(used.Microseconds()) / done,
				allocs: float64(after.Mallocs-before.Mallocs) / done,
				bytes:  float64(after.TotalAlloc-before.TotalAlloc) / done,
			})
		}
	}
	return all
}

func reportOutlays(b *testing.B, all map[string][]outlay, names ...string) {
	b.Helper()
	median := func(name string, of func(outlay) float64) float64 {
		values := make([]float64, 0, len(all[name]))
		for _, o := range all[name] {
			values = append(values, of(o))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, name := range names {
		b.ReportMetric(median(name, func(o outlay) float64 { return o.micros }), name+"_cpu-µs")
		b.ReportMetric(median(name, func(o outlay) float64 { return o.allocs }), name+"_allocs")
		b.ReportMetric(median(name, func(o outlay) float64 { return o.bytes }), name+"_B")
	}
	b.ReportMetric(0, "ns/op")
}

// cancellable returns a context as callers have it: one that can be cancelled.
func cancellable(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	require.NotNil(t, ctx.Done())
	return ctx
}
