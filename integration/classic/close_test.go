package classic

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A leaver is a client that has a request to undo while ZooKeeper's answers do
// not arrive.
func (h *house) leaver(session time.Duration) (*recipes.Client, *netfault.Proxy) {
	h.t.Helper()
	proxy := netfault.New(h.t, h.server.Addr())
	c, err := recipes.NewClient(recipes.Config{Servers: []string{proxy.Addr()}, Chroot: h.root, SessionTimeout: session})
	require.NoError(h.t, err)
	shell := h.shell()
	h.make(shell, users, nil, 0)
	require.NoError(h.t, c.Ready(h.t.Context()))
	require.NoError(h.t, proxy.Blackhole(netfault.ToClient))
	ctx, cancel := context.WithTimeout(h.t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = h.mutex(c).Acquire(ctx)
	require.ErrorIs(h.t, err, context.DeadlineExceeded)
	h.crowdOf(shell, users, 1) // to be undone
	return c, proxy
}

func TestClosingClientConnectsAgainForWhatIsToBeUndone(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)

	// given a client that closes while a request is being undone
	c, proxy := h.leaver(20 * time.Second)
	before, _ := c.Session()
	closing := h.begin(c.Close)
	require.Eventually(t, func() bool { return c.Ready(t.Context()) != nil }, soon, time.Millisecond)
	closing.goesOn()

	// when its connection breaks
	require.NoError(t, proxy.Pass())
	require.NoError(t, proxy.Reset())

	// then it is done in the same session, long before that would end
	start := time.Now()
	require.NoError(t, closing.ended())
	require.Less(t, time.Since(start), 10*time.Second)
	after, _ := c.Session()
	require.Equal(t, before, after)
	require.Empty(t, h.ephemerals())
}

func TestCloseReturnsThoughZooKeeperStaysSilent(t *testing.T) {
	t.Parallel()
	h := shareHouse(t)
	c, proxy := h.leaver(4 * time.Second)
	require.NoError(t, proxy.Blackhole())

	// when it is closed by somebody who is in no hurry
	start := time.Now()
	closing := h.begin(func(context.Context) error { return c.Close(context.Background()) })
	require.NoError(t, closing.ended())

	// then it waits for the length of a session, and what is left ends with that
	require.Less(t, time.Since(start), 4*time.Second+soon)
	require.NoError(t, proxy.Reset())
	h.nobodyThere()
}
