package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// using makes the listener do something with the grant when it is told of a
// kind of notice. The grant has to be handed to it.
func using[N recipes.Notice](grants <-chan *recipes.Grant, do func(*recipes.Grant)) func(*recipes.Request) {
	return func(r *recipes.Request) {
		note := r.Notify
		r.Notify = func(n recipes.Notice) {
			note(n)
			if _, ok := n.(N); ok {
				do(<-grants)
			}
		}
	}
}

func TestListenerThatChecksALockAtRiskHoldsNobodyUp(t *testing.T) {
	h := share(t)
	proxy := netfault.New(t, h.Server.Addr())
	c := h.Client(harness.SessionTimeout(4*time.Second), func(cfg *recipes.Config) {
		cfg.Servers = []string{proxy.Addr()}
		cfg.Margin = 4 * time.Second / 3 // it is lost soon after it is at risk
	})
	grants := make(chan *recipes.Grant, 1)
	u := h.Hold(h.lock(c), "ann", using[recipes.AtRisk](grants, func(g *recipes.Grant) { _ = g.Check() }))
	grants <- u.Granted()
	other := h.Hold(h.Lock(c, "orders"), "bob")

	// when ZooKeeper falls silent
	require.NoError(t, proxy.Blackhole())

	// then both lose, each told once; on a machine that is slow they hear nothing of the risk before
	require.Equal(t, recipes.LossSession, u.Lost().Err.Reason)
	require.Equal(t, recipes.LossSession, other.Lost().Err.Reason)
	require.NoError(t, proxy.Pass())
	require.NoError(t, proxy.Reset())
}

func TestListenerMayReleaseTheLockThatItIsAskedFor(t *testing.T) {
	h := share(t)
	grants := make(chan *recipes.Grant, 1)
	released := make(chan error, 1)
	u := h.hold("ann", using[recipes.PreemptAsked](grants, func(g *recipes.Grant) {
		released <- g.Release(context.Background())
	}))
	grants <- u.Granted()

	next := h.acquire("bob", harness.At(5))

	require.NoError(t, <-released)
	next.Granted()
}
