package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// serially makes a ledger do one request after the other, each in its own time, also those whose caller has given up.
// The returned function sets how long each takes.
func serially(l *ledger, takes time.Duration) (slow func(time.Duration)) {
	var mu sync.Mutex
	var free time.Time // from when on it does nothing
	l.before = func(ctx context.Context, _ string) error {
		mu.Lock()
		free = later(free, time.Now()).Add(takes)
		turn := time.NewTimer(time.Until(free))
		mu.Unlock()
		defer turn.Stop()
		select {
		case <-turn.C:
			return ctx.Err()
		case <-ctx.Done():
			return fmt.Errorf("ZooKeeper does not answer: %w", context.Cause(ctx))
		}
	}
	return func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		takes = d
	}
}

func TestDaemonCatchesUpAfterABurstOfOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			crowd = 1000
			often = 10 * time.Second
		)
		c := newCluster()
		l := c.daemon("one")
		slow := serially(l, 4*time.Millisecond)
		var list []jobs.Job
		for i := range crowd {
			j := job(fmt.Sprint("job-", i), fmt.Sprintf("@every %s/%ds", often, i%10), 0)
			j.Jitter = time.Second
			list = append(list, j)
		}
		d := start(t, l, list)
		total := func() (ran, skipped uint64) {
			for _, s := range d.Stats() {
				ran += s.Ran
				for _, n := range s.Skipped {
					skipped += n
				}
			}
			return ran, skipped
		}

		// given a hundred ticks a second, and a ZooKeeper that has time for 125
		time.Sleep(time.Minute)
		ranBefore, before := total()

		// when it has time for 25, for half a minute
		slow(20 * time.Millisecond)
		time.Sleep(30 * time.Second)
		slow(4 * time.Millisecond)
		ran, burst := total()
		require.Greater(t, burst, before)
		require.Greater(t, ran-ranBefore, uint64(30*25/2), "it runs what it can meanwhile")

		// then soon all ticks run again
		time.Sleep(90 * time.Second)
		ranThen, skippedThen := total()
		time.Sleep(time.Minute)
		ranNow, skippedNow := total()
		require.Equal(t, skippedThen, skippedNow)
		require.InDelta(t, 60*100, ranNow-ranThen, 100)
	})
}
