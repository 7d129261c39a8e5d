package virtualtime

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A stuckLog wants every record, and takes none before it is freed.
type stuckLog struct {
	slog.Handler

	free chan struct{}
}

func (s stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (s stuckLog) Handle(context.Context, slog.Record) error {
	<-s.free
	return nil
}

func TestLogThatBlocksForEverKeepsNobodyFromReconnecting(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder and a waiter whose log, at debug level, takes nothing
		log := stuckLog{free: make(chan struct{})}
		defer close(log.free)
		stuck := func(cfg *recipes.Config) { cfg.Logger = slog.New(log) }
		holder, waiter := w.program("holder", session10, stuck), w.program("waiter", session10, stuck)
		held := holder.do(lockguard.Requirement{}, lasting(time.Hour))
		w.until(time.Minute)
		waits := waiter.do(lockguard.Requirement{}, lasting(time.Second))

		// when connections break, again and again, also to a server that is away for a moment
		for range 20 {
			for _, p := range []*program{holder, waiter} {
				id, _ := p.client.Session()
				require.True(t, w.zk.Disconnect(id))
			}
			w.until(w.now() + time.Minute)
			require.True(t, held.holds())
		}
		w.zk.Stop()
		<-time.After(time.Second)
		require.NoError(t, w.zk.Restart())
		w.until(w.now() + time.Minute)

		// then both have their sessions, and the lock goes from one to the other
		require.True(t, held.holds())
		require.Zero(t, holder.client.Health().Expirations)
		require.NoError(t, held.returned())
		require.NoError(t, waits.returned())
		require.Less(t, waits.ended, time.Hour+time.Minute)
	})
}
