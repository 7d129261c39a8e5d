package tickledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/ticks"
)

// BenchmarkCycle: claim and finish, one tick after the other, by the daemon that
// won the last one; and each time by another, which has to look first.
func BenchmarkCycle(b *testing.B) {
	server := shared.Server(b)
	for _, daemons := range []int{1, 2} {
		b.Run(fmt.Sprintf("daemons=%d", daemons), func(b *testing.B) {
			root := testbed.Root(b)
			var ledgers []*ticks.Ledger
			for i := range daemons {
				c, err := lock.NewClient(lock.Config{Servers: []string{server.Addr()}, Root: root})
				require.NoError(b, err)
				b.Cleanup(func() { _ = c.Close(context.Background()) })
				require.NoError(b, c.Ready(b.Context()))
				ledgers = append(ledgers, c.TickLedger(fmt.Sprint(i)))
			}
			begin := time.Now()
			n := 0
			for b.Loop() {
				l := ledgers[n%daemons]
				n++
				claim, err := l.Claim(b.Context(), job, tick(n), ticks.Ask{})
				require.NoError(b, err)
				require.Equal(b, ticks.Claimed, claim.Verdict)
				_, err = l.Finish(b.Context(), claim.Run, ticks.End{Outcome: ticks.Ran, Took: time.Millisecond})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "cycles/s")
		})
	}
}
