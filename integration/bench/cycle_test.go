package bench

import (
	"fmt"
	"testing"
	"time"
)

func nothing() {}

// pretend is work that takes d and does not need the processor.
func pretend(d time.Duration) func() {
	return func() { <-time.After(d) }
}

// BenchmarkUncontended: every client has a lock of its own.
func BenchmarkUncontended(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
				own := func(client int) string { return fmt.Sprintf("own-%d-%d", clients, client) }
				for b.Loop() {
					report(b, rates(b, server, clients, own, nothing, raw, bare, peer, product), raw.name, bare.name, peer.name)
				}
			})
		}
	})
}

// BenchmarkContended: every client wants the same lock.
func BenchmarkContended(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		for _, clients := range []int{2, 8, 32} {
			for _, work := range []time.Duration{0, time.Millisecond} {
				b.Run(fmt.Sprintf("clients=%d/work=%s", clients, work), func(b *testing.B) {
					one := func(int) string { return fmt.Sprintf("one-%d-%s", clients, work) }
					inside := nothing
					if work > 0 {
						inside = pretend(work)
					}
					for b.Loop() {
						report(b, rates(b, server, clients, one, inside, peer, product), peer.name)
					}
				})
			}
		}
	})
}
