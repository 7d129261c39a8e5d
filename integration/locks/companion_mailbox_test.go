package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// T15 contains the version of the node that it replaces: what was asked of that holder meanwhile is asked of the adopter,
// since then.
func TestAdoptionAgainstARequestToGo(t *testing.T) {
	h := share(t)
	agent := h.hold("agent", ofHold, harness.Cleanup(time.Hour))
	ref := h.reference(agent)
	onlooker := h.Client()
	asked := func() (at time.Time) {
		harness.Eventually(h, func() bool {
			holders := h.state(onlooker).Holders
			if len(holders) != 1 || len(holders[0].PreemptedBy) == 0 {
				return false
			}
			at = holders[0].PreemptedBy[0].At
			return true
		}, "the holder is asked to go")
		return at
	}
	c, before := h.wired()
	var boss *harness.Request
	var since time.Time
	before(0, func() { // T15: a boss has asked
		boss = h.acquire("boss", harness.At(5))
		harness.Await[recipes.PreemptAsked](h, agent.Notices)
		since = asked()
		<-time.After(20 * time.Millisecond) // another note would be of another time
	})
	adopter := h.adoptBy(h.lock(c), "adopter", ref)
	adopter.Granted()
	require.Equal(t, since, asked())
	adopter.Release()
	boss.Granted()
}
