package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// T15 contains the version of the node that it replaces: what was asked of that holder meanwhile is asked of the adopter,
// since then.
func TestAdoptionAgainstARequestToGo(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	agent := h.hold(h.lock(h.client()), "agent", ofHold, cleanup(time.Hour))
	ref := agent.reference()
	onlooker := h.client()
	asked := func() (at time.Time) {
		require.Eventually(t, func() bool {
			holders := h.state(onlooker).Holders
			if len(holders) != 1 || len(holders[0].PreemptedBy) == 0 {
				return false
			}
			at = holders[0].PreemptedBy[0].At
			return true
		}, time.Minute, time.Millisecond)
		return at
	}
	c, before := h.wired()
	var boss *user
	var since time.Time
	before(0, func() { // T15: a boss has asked
		boss = h.ask(h.lock(h.client()), "boss", at(5))
		await[recipes.PreemptAsked](t, agent.told)
		since = asked()
		<-time.After(20 * time.Millisecond) // another note would be of another time
	})
	adopter := h.adopt(h.lock(c), "adopter", ref)
	adopter.granted()
	require.Equal(t, since, asked())
	adopter.release()
	boss.granted()
}
