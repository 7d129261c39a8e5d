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
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A serial ledger does one request after the other, each in its own time: also
// those that nobody waits for any more.
type serial struct {
	*ledger
	mu    sync.Mutex
	takes time.Duration // each request
	free  time.Time     // from when on it does nothing
}

func (s *serial) slow(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

func (s *serial) queue(ctx context.Context) error {
	s.mu.Lock()
	s.free = later(s.free, time.Now()).Add(s.takes)
	turn := time.NewTimer(time.Until(s.free))
	s.mu.Unlock()
	defer turn.Stop()
	select {
	case <-turn.C:
		return ctx.Err()
	case <-ctx.Done():
		return fmt.Errorf("ZooKeeper does not answer: %w", context.Cause(ctx))
	}
}

func (s *serial) Begin(ctx context.Context, job string, first time.Time) (after time.Time, err error) {
	if err := s.queue(ctx); err != nil {
		return after, err
	}
	return s.ledger.Begin(ctx, job, first)
}

func (s *serial) Claim(ctx context.Context, job string, instant time.Time, ask recipes.TickAsk) (claim recipes.TickClaim, err error) {
	if err := s.queue(ctx); err != nil {
		return claim, err
	}
	return s.ledger.Claim(ctx, job, instant, ask)
}

func (s *serial) Finish(ctx context.Context, run recipes.TickRun, end recipes.TickEnd) (finish recipes.TickFinish, err error) {
	if err := s.queue(ctx); err != nil {
		return finish, err
	}
	return s.ledger.Finish(ctx, run, end)
}

func (s *serial) RecordSkip(ctx context.Context, job, reason string, instants ...time.Time) (n int, err error) {
	if err := s.queue(ctx); err != nil {
		return n, err
	}
	return s.ledger.RecordSkip(ctx, job, reason, instants...)
}

func (s *serial) State(ctx context.Context, job string) (state recipes.TickState, err error) {
	if err := s.queue(ctx); err != nil {
		return state, err
	}
	return s.ledger.State(ctx, job)
}

func TestDaemonCatchesUpAfterABurstOfOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			crowd = 1000
			often = 10 * time.Second
		)
		c := newCluster()
		zk := &serial{ledger: c.daemon("one"), takes: 4 * time.Millisecond}
		var list []jobs.Job
		for i := range crowd {
			j := job(fmt.Sprint("job-", i), fmt.Sprintf("@every %s/%ds", often, i%10), 0)
			j.Jitter = time.Second
			list = append(list, j)
		}
		d := start(t, zk.ledger, list, func(cfg *Config) { cfg.Ledger = zk })
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
		zk.slow(20 * time.Millisecond)
		time.Sleep(30 * time.Second)
		zk.slow(4 * time.Millisecond)
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
