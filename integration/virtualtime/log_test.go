package virtualtime

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
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

func TestLogThatBlocksForEverDoesNotStopReconnecting(t *testing.T) {
	run(t, func(w *world) {
		// given a holder and a waiter whose log, at debug level, takes nothing
		log := stuckLog{free: make(chan struct{})}
		defer close(log.free)
		stuck := func(cfg *lock.Config) { cfg.Logger = slog.New(log) }
		holder, waiter := w.Program("holder", session10, stuck), w.Program("waiter", session10, stuck)
		held := holder.Do(lockguard.Requirement{}, lasting(time.Hour))
		w.Until(time.Minute)
		waits := waiter.Do(lockguard.Requirement{}, lasting(time.Second))

		// when connections break, again and again, also to a server that is away for a moment
		for range 20 {
			for _, p := range []*program{holder, waiter} {
				id, _ := p.Client.Session()
				require.True(w, w.Disconnect(id))
			}
			w.Until(w.Now() + time.Minute)
			require.True(w, held.Holds())
		}
		w.Stop()
		<-time.After(time.Second)
		require.NoError(w, w.Restart())
		w.Until(w.Now() + time.Minute)

		// then both have their sessions, and the lock goes from one to the other
		require.True(w, held.Holds())
		require.Zero(w, holder.Client.Health().Expirations)
		require.NoError(w, held.Returned())
		require.NoError(w, waits.Returned())
		require.Less(w, waits.Ended(), time.Hour+time.Minute)
	})
}
