package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// N15
func TestClientWhoseConnectionBreaksAsItShowsItsCredentialsRecovers(t *testing.T) {
	h := share(t)

	// given a client with credentials that holds
	wire := &tripwire{}
	c := h.Client(through(wire), as("ann"))
	holder := h.Hold(h.lock(c), "ann")
	id, _ := c.Session()

	for _, where := range []spot{beforeRequest, afterRequest} {
		// when its connection breaks, and the next one with its first request, which shows them
		again := make(chan struct{})
		wire.set(where, 0, func() {
			wire.cut()
			close(again)
		})
		wire.cut()
		<-again

		// then it comes back in the same session, and what it made is its own
		require.NoError(t, holder.Granted().Extend(t.Context(), time.Hour))
		h.heldBy(c, "ann")
	}
	now, _ := c.Session()
	require.Equal(t, id, now)
	holder.Release()
}
