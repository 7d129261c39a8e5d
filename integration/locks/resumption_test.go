package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func TestDeadHoldIsResumedWithItsTokenByItsReferenceAlone(t *testing.T) {
	h := share(t)
	onlooker := h.Client()
	for _, members := range []string{"one", "one that has been joined, and left", "two that die"} {
		t.Run(members, func(t *testing.T) {
			doomed := []*lock.Client{h.Client(), h.Client()}
			agent := h.Hold(h.lock(doomed[0]), "agent", ofHold)
			ref := h.reference(agent)
			if members != "one" {
				activity := h.joinBy(h.lock(doomed[1]), "activity", ref)
				activity.Granted()
				if members != "two that die" {
					activity.Release()
				}
			}

			// given a hold whose members die, without a waiter
			h.Expire(doomed[0])
			h.Expire(doomed[1])
			agent.Lost()
			h.NoEphemerals()

			// when another process comes with the reference
			again := h.adopt("agent again", ref, harness.Lease(time.Hour))

			// then it has the old token
			require.Equal(t, ref.Token, again.Token())
			require.Equal(t, []string{"agent again"}, h.holders(onlooker))
			require.Equal(t, time.Hour, h.state(onlooker).Holders[0].LeaseTimeout)

			// once: what was resumed is not there any more
			require.True(t, requireNotThere(t, h.adopt("late", ref).Refused()).Held)
			again.Release()
			requireNotThere(t, h.adopt("later", again.Granted().Reference()).Refused())
		})
	}
}

func TestHoldIsNotResumedAfterAnotherHeldTheLock(t *testing.T) {
	h := share(t)
	doomed := h.Client()
	agent := h.Hold(h.lock(doomed), "agent", ofHold)
	ref := h.reference(agent)
	h.Expire(doomed)
	h.NoEphemerals()
	other := h.hold("other")
	requireNotThere(t, h.adopt("again", ref).Refused())
	other.Release()
	requireNotThere(t, h.adopt("again", ref).Refused())

	// Nor a shared one.
	doomed = h.Client()
	reader := h.Hold(h.lock(doomed), "reader", ofHold, harness.Shared)
	ref = h.reference(reader)
	require.Equal(t, priority.Shared, ref.Mode)
	h.Expire(doomed)
	h.NoEphemerals()
	requireNotThere(t, h.adopt("again", ref).Refused())
}

func TestPlaceOfADeadMemberIsTakenBesideTheOthers(t *testing.T) {
	h := share(t)
	onlooker := h.Client()

	// given an agent that dies, and two activities, one of which has come since
	doomed := h.Client()
	agent := h.Hold(h.lock(doomed), "agent", ofHold)
	ref := h.reference(agent)
	one := h.join("one", ref)
	one.Granted()
	h.Expire(doomed)
	h.holderIs(onlooker, "one")
	two := h.join("two", ref)
	two.Granted()

	// when another agent adopts the place of the dead one
	again := h.adopt("agent again", ref)

	// then all three are companions, and the place is taken
	require.Equal(t, ref.Token, again.Token())
	require.Equal(t, []string{"agent again", "one", "two"}, h.holders(onlooker))
	require.True(t, requireNotThere(t, h.adopt("late", ref).Refused()).Held)
	require.Zero(t, len(harness.All[lock.Lost](one.Notices))+len(harness.All[lock.Lost](two.Notices)))
}

func TestLockDelayOfADeadHoldBarsAllButThatHold(t *testing.T) {
	h := share(t)
	doomed := h.Client()
	agent := h.Hold(h.lock(doomed), "agent", ofHold, delayed(5*time.Minute))
	ref := h.reference(agent)
	boss := h.acquire("boss", harness.At(5), harness.Cleanup(time.Minute))
	harness.Await[lock.PreemptRequested](h, agent.Notices)

	// given a hold that has died, and one that waits for the delay
	h.Expire(doomed)
	harness.Await[lock.Delayed](h, boss.Notices)

	// when it is resumed, then at once
	again := h.adopt("agent again", ref, delayed(5*time.Minute), harness.Cleanup(time.Minute))
	require.Equal(t, ref.Token, again.Token())

	// and the waiter preempts it, and not only when the delay would be over
	require.Equal(t, "boss", harness.Await[lock.PreemptRequested](h, again.Notices).By.Owner)

	// and the delay of the dead one still counts for that one when the hold ends
	again.Release()
	state := h.state(h.Client())
	require.False(t, state.Held())
	require.Equal(t, []string{"boss"}, harness.Owners(state.Waiters))
	require.Len(t, state.Delays, 1)
	require.Equal(t, agent.Granted().ID(), state.Delays[0].ID)
	boss.IsPending()
}

// The token of a request that was waiting when it was referred to, and died with
// its hold, is unknown.
func TestHoldIsResumedWithANewTokenWhereTheOldOneIsNotKnown(t *testing.T) {
	h := share(t)
	doomed := []*lock.Client{h.Client(), h.Client()}
	agent := h.Hold(h.lock(doomed[0]), "agent", ofHold)
	activity := h.joinBy(h.lock(doomed[1]), "activity", h.reference(agent))
	other := h.reference(activity)
	unknown := h.reference(agent)
	unknown.Token = 0
	h.Expire(doomed[0])
	h.Expire(doomed[1])
	h.NoEphemerals()

	again := h.adopt("again", unknown)
	require.Greater(t, again.Token(), other.Token)

	// and the old token does not come back
	again.Release()
	requireNotThere(t, h.adopt("late", other).Refused())
}
