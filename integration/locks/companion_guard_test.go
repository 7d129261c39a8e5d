package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var ofShop = lockguard.Requirement{Scope: "users", Hold: holdID, CleanupTimeout: time.Minute}

func TestHoldLastsAsLongAsAnyOfItsCompanions(t *testing.T) {
	h := share(t)
	doomed, onlooker := h.Client(), h.Client()

	// given an agent with a hold, and an activity in another process
	agent, err := h.guard(doomed, "agent").Acquire(t.Context(), ofShop)
	require.NoError(t, err)
	activity, err := h.guard(h.Client(), "activity").Join(t.Context(), lockguard.Requirement{}, agent.Reference())
	require.NoError(t, err)
	require.Equal(t, agent.Token(), activity.Token())
	require.Equal(t, time.Minute, activity.Info().Requirement.CleanupTimeout)

	// when the agent's process dies
	h.Expire(doomed)
	<-agent.Lost()
	h.holderIs(onlooker, "activity")

	// then the activity goes on, and another agent takes the place of the first
	require.NoError(t, activity.Context().Err())
	again, err := h.guard(h.Client(), "agent").Adopt(t.Context(), ofShop, agent.Reference())
	require.NoError(t, err)
	require.Equal(t, agent.Token(), again.Token())

	// and a more important request interrupts both, and has the lock after both
	boss := h.guard(h.Client(), "boss").Enqueue(t.Context(), lockguard.Requirement{Scope: "users", Priority: 5})
	for _, hold := range []*lockguard.Hold{activity, again} {
		<-hold.Context().Done()
		require.ErrorAs(t, context.Cause(hold.Context()), new(*lockguard.PreemptedError))
	}
	_, err = h.guard(h.Client(), "late").Join(t.Context(), lockguard.Requirement{}, again.Reference())
	require.ErrorAs(t, err, new(*lockguard.PreemptedError))
	helper, err := h.guard(h.Client(), "helper").Join(t.Context(), lockguard.Requirement{}, again.Reference(), lockguard.ForCleanup())
	require.NoError(t, err)
	require.NoError(t, again.Release(t.Context()))
	require.NoError(t, activity.Release(t.Context()))
	require.NoError(t, helper.Context().Err())
	require.Equal(t, []string{"helper"}, h.holders(onlooker))
	require.NoError(t, helper.Release(t.Context()))
	<-boss.Done()
	hold, err := boss.Hold()
	require.NoError(t, err)
	require.NoError(t, hold.Release(t.Context()))
}

// The version is none to take the lock by while another member holds it.
func TestHoldThatGoesOnIsNotTakenForIdleByWhoHasLeftIt(t *testing.T) {
	h := share(t)
	c := h.Client()

	// given a hold that goes on without the one that began it
	agent := h.Hold(h.lock(c), "agent", ofHold)
	activity := h.join("activity", h.reference(agent))
	activity.Granted()
	agent.Release()

	// when that client asks for the lock
	_, err := h.lock(c).Acquire(t.Context(), recipes.Request{Owner: "again", Hold: holdID, AcquireTimeout: new(time.Duration(0))})

	// then it is refused
	var not *recipes.NotAcquiredError
	require.ErrorAs(t, err, &not)
	require.NoError(t, activity.Granted().Check())
	require.Equal(t, []string{"activity"}, h.holders(h.Client()))
}
