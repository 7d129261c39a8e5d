package helix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Helix 51
func TestSkewedClocksChangeNothing(t *testing.T) {
	t.Parallel()
	const (
		skew  = 10 * time.Minute
		long  = skew / 2
		short = 3 * time.Second // longer than most machines need to start a process
	)
	for how, ahead := range map[string]time.Duration{
		"the waiter's clock is ahead": skew,
		"the holder's clock is ahead": -skew,
	} {
		t.Run(how, func(t *testing.T) {
			h := newFixture(t)

			// given two processes whose clocks are twenty minutes apart
			meet := func(holds []change, waits ...change) (holder, waiter *process, held lock.Contender) {
				t.Helper()
				holder = h.processAhead("holder", -ahead, holds...)
				held = holder.sees()
				return holder, h.processAhead("waiter", ahead, waits...), held
			}

			// when one holds with a lease whose end is over, or far away, on the other's clock
			holder, waiter, held := meet([]change{lease(long)}, within(short))
			seen := waiter.sees()

			// then the lease is respected: no holder was preempted, and every client sees what is left of it
			require.Equal(t, held.Token, seen.Token)
			for _, holder := range []lock.Contender{held, seen} {
				require.LessOrEqual(t, holder.LeaseLeft, long)
				require.Greater(t, holder.LeaseLeft, long-time.Minute)
			}
			waiter.end()
			holder.end()
			require.Zero(t, waiter.count("PreemptSent"))

			// when it is preempted by force, and has time to clean up; the lock is asked for within the waiter's time
			holder, waiter, _ = meet([]change{cleanup(long)}, at(5), forceful, within(patience))
			sent, asked := waiter.await("PreemptSent"), holder.await("PreemptRequested")
			waiter.await("seen")

			// then the grace is respected: both know how much it is, and the lock is not taken
			require.Equal(t, long, sent.Grace)
			require.LessOrEqual(t, asked.Grace, long)
			require.Greater(t, asked.Grace, long-time.Minute)
			holder.end()
			waiter.end()
			require.Zero(t, waiter.count("TakenOver"))

			// when a lease runs out, or a grace, by force, then the lock is taken: not before, and not ten minutes later
			for _, ends := range []struct{ holder, waiter []change }{
				{[]change{lease(short)}, nil},
				{[]change{cleanup(short)}, []change{at(5), forceful}},
			} {
				holder, waiter, held := meet(ends.holder, ends.waiter...)
				waiter.await("TakenOver")
				require.Greater(t, waiter.sees().Token, held.Token)
				lost := holder.await("Lost")
				require.Contains(t, lost.Error, `taken by "waiter"`)
				require.GreaterOrEqual(t, lost.Clock.Sub(holder.began), short)
				waiter.end()
				holder.end()
			}
		})
	}
}
