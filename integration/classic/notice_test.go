package classic

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestListenerThatChecksWhatIsAtRiskHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	proxy := netfault.New(t, h.server.Addr())
	c := h.client(behind(proxy), timeout(4*time.Second), func(cfg *recipes.Config) {
		cfg.Margin = 4 * time.Second / 3 // it is lost soon after it is at risk
	})

	// given a holder who checks when told of a risk, and another beside it
	held := make(chan *recipes.ClassicGrant, 1)
	told := h.listen("ann")
	m, err := c.Mutex("/locks/one", recipes.MutexOptions{Notify: func(n recipes.Notice) {
		if _, ok := n.(recipes.AtRisk); ok {
			g := <-held
			_ = g.Check()
			held <- g
		}
		told.note(n)
	}})
	require.NoError(t, err)
	ann := h.hold("ann", m.Acquire)
	held <- ann.granted()
	bob := h.hold("bob", h.mutex(c).Acquire)

	// when ZooKeeper falls silent
	require.NoError(t, proxy.Blackhole())

	// then both lose in time, and the listener is told of it, once and last
	require.Equal(t, recipes.LossSession, ann.lost().Reason)
	require.Equal(t, recipes.LossSession, bob.lost().Reason)
	await[recipes.Lost](t, told)
	require.Equal(t, 1, count[recipes.Lost](told))
	require.NoError(t, proxy.Pass())
	require.NoError(t, proxy.Reset())
}

func TestListenerMayReleaseWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	held := make(chan *recipes.ClassicGrant, 1)
	released := make(chan error, 1)
	u := h.hold("ann", h.mutex(h.client(), func(o *recipes.MutexOptions) {
		o.Notify = func(n recipes.Notice) {
			if _, ok := n.(recipes.PreemptAsked); ok {
				released <- (<-held).Release(context.Background())
			}
		}
	}).Acquire)
	held <- u.granted()
	waiter := h.queue("bob", h.client())

	require.NoError(t, h.client().Revoke(t.Context(), u.grant.Path()))

	require.NoError(t, <-released)
	waiter.granted()
}

func TestLeaderMayResignAsItIsToldOfItsElection(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	var told []recipes.ElectionNotice
	resigned := make(chan error, 1)
	e, err := h.client().Election(office, "ann", recipes.ElectionOptions{TellResignation: true, Notify: func(n recipes.ElectionNotice) {
		told = append(told, n)
		if n, ok := n.(recipes.Elected); ok {
			resigned <- n.Term.Resign(context.Background())
		}
	}})
	require.NoError(t, err)

	var term *recipes.Term
	campaign := h.begin(func(ctx context.Context) (err error) {
		term, err = e.Campaign(ctx)
		return err
	})

	require.NoError(t, campaign.ended())
	require.NoError(t, <-resigned)
	require.ErrorIs(t, term.Err(), recipes.ErrResigned)
	require.Equal(t, []recipes.ElectionNotice{recipes.Elected{Term: term}, recipes.Dismissed{Term: term, Err: recipes.ErrResigned}}, told)
	h.nobodyThere()
}
