package locks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Kazoo K1, Helix 1
func TestOnlookerSeesWhoHoldsTheLock(t *testing.T) {
	h := share(t)

	// given one that holds
	g := h.hold("backup", harness.At(7), harness.Lease(time.Hour), harness.Cleanup(time.Minute), func(r *lock.Request) {
		r.Message = "nightly backup"
	})

	// when another client looks
	state := h.state(h.Client())

	// then it sees who, why and how important
	require.Empty(t, state.Waiters)
	require.Len(t, state.Holders, 1)
	holder := state.Holders[0]
	require.Equal(t, "backup", holder.Owner)
	require.Equal(t, "nightly backup", holder.Message)
	require.EqualValues(t, 7, holder.Priority)
	require.Equal(t, time.Minute, holder.CleanupTimeout)
	require.Equal(t, g.Granted().ID(), holder.ID)
	require.Equal(t, g.Token(), holder.Token)
	require.Greater(t, holder.LeaseLeft, time.Hour-time.Minute)
}

// Kazoo K2, and the more important ones first, however late they come.
func TestWaitersAreServedInTheOrderOfTheList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		levels []priority.Level
		want   []string
	}{
		"equal":         {[]priority.Level{0, 0, 0, 0, 0}, []string{"0", "1", "2", "3", "4"}},
		"of two levels": {[]priority.Level{1, 3, 1, 3, 1}, []string{"1", "3", "0", "2", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := share(t)
			onlooker := h.Client()

			// given a holder, and waiters in the order of their arrival
			holder := h.hold("holder", harness.At(9))
			waiters := map[string]*harness.Request{}
			for i, level := range c.levels {
				waiters[fmt.Sprint(i)] = h.queued(fmt.Sprint(i), harness.At(level))
			}
			require.Equal(t, c.want, harness.Owners(h.state(onlooker).Waiters))

			// when one after the other releases
			for i, next := range c.want {
				holder.Release()
				holder = waiters[next]
				holder.Granted()

				// then the next one holds, and the list is shorter by one
				state := h.state(onlooker)
				require.Equal(t, []string{next}, harness.Owners(state.Holders))
				require.Equal(t, c.want[i+1:], harness.Owners(state.Waiters))
				for place, waiter := range state.Waiters {
					require.Equal(t, place+1, waiter.Position)
					waiters[waiter.Owner].IsPending()
				}
			}
			h.drain(holder)
		})
	}
}

// Kazoo K4, etcd T3, Helix 10
func TestTryOnHeldLockIsRefusedAndLeavesNothingBehind(t *testing.T) {
	h := share(t)

	// given one that holds
	holder := h.hold("holder", harness.At(9))

	// when a more important one tries, or a less important one, also by force
	for _, tries := range [][]func(*lock.Request){{harness.At(100)}, {harness.At(0)}, {harness.At(0), harness.Forceful}} {
		tryer := h.acquire("tryer", append(tries, harness.Try)...)

		// then it learns who holds, and no request was ever there
		var busy *lock.NotAcquiredError
		require.ErrorAs(t, tryer.Refused(), &busy)
		require.Equal(t, []string{"holder"}, harness.Owners(busy.Holders))
		require.Contains(t, busy.Error(), `"holder"`)
		require.Len(t, h.Ephemerals(), 1)
	}

	// and the holder has heard nothing of it
	require.Empty(t, harness.All[lock.PreemptRequested](holder.Notices))
	require.Empty(t, h.state(h.Client()).Holders[0].PreemptedBy)
}

// Kazoo K11, etcd T2
func TestReleasedLockCanBeTakenAgain(t *testing.T) {
	h := share(t)
	l, onlooker := h.lock(h.Client()), h.Client()
	last := lock.Token(0)
	for range 5 {
		// given one that holds and releases, when it does so again, then it works
		u := h.Hold(l, "again and again")
		require.Greater(t, u.Token(), last)
		last = u.Token()
		u.Release()
		h.heldBy(onlooker)

		// and a second release is an error, and nothing happens
		second := h.Hold(l, "second")
		require.ErrorIs(t, u.Granted().Release(t.Context()), lock.ErrReleased)
		require.ErrorIs(t, u.Granted().Extend(t.Context(), time.Minute), lock.ErrReleased)
		h.heldBy(onlooker, "second")
		h.drain(second)
	}
}

// Kazoo K7, K13, Curator SM2
func TestAcquireTimeoutEndsNotEarlierThanItSays(t *testing.T) {
	t.Parallel()
	for who, itself := range map[string]bool{"another client": false, "the holder itself, who is a stranger without its grant": true} {
		t.Run(who, func(t *testing.T) {
			h := share(t)
			c := h.Client()
			l := h.lock(c)

			// given one that holds
			holder := h.Hold(l, "holder")

			// when it, or another client, acquires with a timeout
			if !itself {
				l = h.lock(h.Client())
			}
			var busy *lock.NotAcquiredError
			for patience := 300 * time.Millisecond; patience < time.Minute; patience *= 2 {
				start := time.Now()
				err := h.Acquire(l, "waiter", harness.Within(patience)).Refused()

				// then it fails then, not earlier
				require.ErrorAs(t, err, &busy)
				require.GreaterOrEqual(t, time.Since(start), patience)
				require.GreaterOrEqual(t, busy.Waited, patience)
				if len(busy.Holders) > 0 { // else ZooKeeper has not answered by then, which is longer on a busy machine
					break
				}
			}

			// and says who was in the way
			require.Equal(t, []string{"holder"}, harness.Owners(busy.Holders))

			// and the holder still holds, until it releases
			require.Len(t, h.Ephemerals(), 1)
			h.heldBy(c, "holder")
			h.drain(holder)
		})
	}
}

// A preemption whose author is gone is void; the next author clears it away.
func TestMailboxKeepsNoRequestsOfTheDead(t *testing.T) {
	h := share(t)

	// given a preempted holder
	holder := h.hold("holder", harness.Cleanup(time.Hour))
	c := h.Client()
	boss := h.Acquire(h.lock(c), "boss", harness.At(1))
	harness.Await[lock.PreemptRequested](h, holder.Notices)

	// when the session of the one that asked ends, and it asks again in another one
	h.Expire(c)
	harness.Eventually(t, func() bool { return len(harness.All[lock.PreemptSent](boss.Notices)) == 2 }, "it has asked twice")

	// then that is the only request that stands
	require.Len(t, h.state(h.Client()).Holders[0].PreemptedBy, 1)
	holder.Release()
	boss.Granted()
}
