package virtualtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/virtual"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestHolderWhoseLockWasBrokenLearnsSoHoweverSoonOthersHaveTheLock(t *testing.T) {
	run(t, func(w *world) {
		// given a holder that hears of nothing for a while
		holder, next := w.Program("holder", long), w.Program("next", long)
		operator := w.Program("operator", long, func(cfg *lock.Config) {
			cfg.Auth = &lock.Digest{User: "ana", Password: "secret"}
		})
		held := holder.Do(lockguard.Requirement{}, untilCancelled)
		w.Until(time.Second)
		deaf := w.On(zktest.Event(zktest.NodeDeleted, zktest.NodeDataChanged).From("holder")).Hold()

		// when its lock is broken, and newcomers have it, one after the other
		_, err := operator.Client.Break(w.Context(), lock.BreakRequest{
			Scope: scope, Token: held.Hold().Token(), By: "ana", Reason: "it hangs",
		})
		require.NoError(w, err)
		for range 3 {
			require.NoError(w, next.Do(lockguard.Requirement{}, atOnce).Returned())
		}
		synctest.Wait()
		deaf.Release()

		// then it learns who has broken it, and why
		lost := virtual.LostBy(w.T, held.Returned())
		require.Equal(w, lock.LossBroken, lost.Reason)
		require.Equal(w, "ana", lost.By)
		require.Equal(w, "it hangs", lost.Why)

		// and when that is no news any more, the lock node forgets it
		for _, later := range []time.Duration{5 * time.Minute, 10 * time.Minute} { // the first one only learns how old it is
			w.Until(later)
			require.NoError(w, next.Do(lockguard.Requirement{}, atOnce).Returned())
		}
		state := next.Lock(scope)
		require.Empty(w, state.Evicted)
	})
}

// atOnce is work that is done before it has begun.
func atOnce(context.Context) error { return nil }
