package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestHolderWhoseLockWasBrokenIsToldSoHoweverSoonOthersHaveTheLock(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		// given a holder that hears of nothing for a while
		holder, next := w.program("holder", long), w.program("next", long)
		operator := w.program("operator", long, func(cfg *recipes.Config) {
			cfg.Auth = &recipes.Digest{User: "ana", Password: "secret"}
		})
		held := holder.do(lockguard.Requirement{}, untilCancelled)
		w.until(time.Second)
		deaf := w.zk.On(zktest.Event(zktest.NodeDeleted, zktest.NodeDataChanged).From("holder")).Hold()

		// when its lock is broken, and newcomers have it, one after the other
		_, err := operator.client.Break(t.Context(), recipes.BreakRequest{
			Scope: scope, Token: held.hold().Token(), By: "ana", Reason: "it hangs",
		})
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, next.do(lockguard.Requirement{}, atOnce).returned())
		}
		synctest.Wait()
		deaf.Release()

		// then it is told who has broken it, and why
		lost := lostBy(t, held.returned())
		require.Equal(t, recipes.LossBroken, lost.Reason)
		require.Equal(t, "ana", lost.By)
		require.Equal(t, "it hangs", lost.Why)

		// and when that is no news any more, the lock node forgets it
		for _, later := range []time.Duration{5 * time.Minute, 10 * time.Minute} { // the first one only learns how old it is
			w.until(later)
			require.NoError(t, next.do(lockguard.Requirement{}, atOnce).returned())
		}
		state, err := next.client.Lock(t.Context(), scope)
		require.NoError(t, err)
		require.Empty(t, state.Evicted)
	})
}

// atOnce is work that is done before it has begun.
func atOnce(context.Context) error { return nil }
