package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N15
func TestClientWhoseConnectionBreaksAsItShowsItsCredentialsRecovers(t *testing.T) {
	h := share(t)

	// given a client with credentials that holds
	c, wire := h.wired(as("ann"))
	holder := h.Hold(h.lock(c), "ann")
	id, _ := c.Session()

	for _, lose := range []func(*zktest.Fault) *zktest.Rule{(*zktest.Fault).DropRequest, (*zktest.Fault).DropReply} {
		// when its connection breaks, and the next one as it shows them
		again := lose(wire.On(zktest.Op(zktest.Auth).Nth(1)))
		require.True(t, wire.Disconnect(id))
		harness.Receive(t, again.Reached(), "it shows no credentials")

		// then it comes back in the same session, and what it made is its own
		require.NoError(t, holder.Granted().Extend(t.Context(), time.Hour))
		h.heldBy(c, "ann")
	}
	now, _ := c.Session()
	require.Equal(t, id, now)
	holder.Release()
}
