package helix

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/wallclock"
)

// Helix 51
func TestSkewedClocksChangeNothing(t *testing.T) {
	t.Parallel()
	const (
		skew  = 10 * time.Minute
		long  = skew / 2
		short = time.Second
	)
	for how, ahead := range map[string]time.Duration{
		"the waiter's clock is ahead": skew,
		"the holder's clock is ahead": -skew,
	} {
		t.Run(how, func(t *testing.T) {
			h := newFixture(t)

			// given two processes whose clocks are twenty minutes apart
			holder := h.processAhead("holder", -ahead)
			waiter := h.processAhead("waiter", ahead)

			// when one holds with a lease whose end is over, or far away, on the other's clock
			holder.order("acquire", lease(long))
			token := holder.await("Acquired").Token
			waiter.order("acquire", within(short))
			waiter.await("NotAcquired")

			// then the lease is respected: no holder was preempted, and every client sees what is left
			// of it
			require.Zero(t, waiter.count("PreemptSent"))
			for _, p := range []*process{holder, waiter} {
				p.order("look")
				seen := p.await("seen").Lock.Holders[0]
				require.Equal(t, token, seen.Token)
				require.LessOrEqual(t, seen.LeaseLeft, long)
				require.Greater(t, seen.LeaseLeft, long-time.Minute)
			}
			holder.order("release")
			holder.await("Released")

			// when it is preempted by force, and has time to clean up
			holder.order("acquire", cleanup(long))
			holder.await("Acquired")
			waiter.order("acquire", at(5), forceful, within(5*patience)) // the lock is asked for within it
			sent, asked := waiter.await("PreemptSent"), holder.await("PreemptRequested")
			waiter.await("NotAcquired")

			// then the grace is respected: both know how much it is, and the lock is not taken
			require.Equal(t, long, sent.Grace)
			require.LessOrEqual(t, asked.Grace, long)
			require.Greater(t, asked.Grace, long-time.Minute)
			holder.order("release")
			holder.await("Released")
			require.Zero(t, waiter.count("TakenOver"))

			// when a lease runs out, or a grace, by force, then the lock is taken: not before, and not ten minutes later
			for _, ends := range []struct{ holder, waiter []change }{
				{[]change{lease(short)}, nil},
				{[]change{cleanup(short)}, []change{at(5), forceful}},
			} {
				began := time.Now()
				holder.order("acquire", ends.holder...)
				token = holder.await("Acquired").Token
				waiter.order("acquire", ends.waiter...)
				require.GreaterOrEqual(t, waiter.await("TakenOver").Heard.Sub(began), short)
				require.Greater(t, waiter.await("Acquired").Token, token)
				require.Contains(t, holder.await("Lost").Error, `taken by "waiter"`)
				waiter.order("release")
				waiter.await("Released")
				holder.order("release")
			}
		})
	}
}

// processAhead starts a process whose wall clock is wrong, and checks that it
// is. Its monotonic clock is right.
func (f *fixture) processAhead(owner string, ahead time.Duration) *process {
	f.Helper()
	p := f.process(owner, time.Minute, func(cmd *exec.Cmd) error { return new(wallclock.Clock).Start(cmd, ahead) })
	f.History.Add(owner, "its clock is %s ahead", p.ahead.Round(time.Second))
	require.InDelta(f, ahead, p.ahead, float64(time.Minute), "the clock of %s is %s ahead", owner, p.ahead)
	return p
}
