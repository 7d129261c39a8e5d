package locks

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Somebody more important may come, and ask the holder to go, between the look
// at who is there and the look at the holder that arms the watch.
func TestFirstWaiterLearnsOfAMoreImportantOneThatCameBetweenItsLooks(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a holder that is asked to go
	holder := h.hold(h.lock(h.client()), "holder", cleanup(time.Hour))
	wire := &tripwire{}
	c, boss := h.client(through(wire)), h.lock(h.client())
	var more *user
	came := make(chan struct{})

	// when a more important one comes, and asks the holder too, after the first one has listed the queue again
	wire.set(beforeTransaction, 0, func() {
		wire.set(beforeListing, 0, func() {
			wire.set(beforeGet, 0, func() {
				more = h.ask(boss, "more important", at(2))
				await[recipes.PreemptSent](t, more.told)
				close(came)
			})
		})
	})
	first := h.ask(h.lock(c), "first", at(1))
	<-came

	// then the first one is told that it is not the first any more
	await[recipes.Displaced](t, first.told)
	holder.release()
	more.granted()
}
