package gocron

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/adapters/internal/guardtest"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestALeaderThatIsAskedToGoLeadsNoMoreAlthoughItStillHolds(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given a leader that has not yet noticed its preemption
		better := guardtest.New(t, zk, "better")
		hold, err := guardtest.New(t, zk, "leader").Acquire(t.Context(), lockguard.Requirement{Scope: "leader"})
		require.NoError(t, err)
		e := &Elector{hold: hold}
		require.NoError(t, e.IsLeader(t.Context()))
		taken := make(chan error, 1)
		go func() {
			taken <- better.Do(t.Context(), lockguard.Requirement{Scope: "leader", Terms: priority.Terms{Priority: 9}}, func(context.Context) error { return nil })
		}()
		<-hold.Context().Done()

		// then it holds, and does not lead
		require.NoError(t, hold.Check())
		require.ErrorIs(t, e.IsLeader(t.Context()), ErrNotLeader)
		require.NoError(t, hold.Release(t.Context()))
		require.NoError(t, <-taken)
	})
}
