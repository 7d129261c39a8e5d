package classic

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// N3, with a member of the ensemble that is behind: a client that looked there
// without a sync would not find its node, make another, and wait for itself. Only
// an embedded server shows the past for as long as nobody syncs.
func TestNodeWhoseCreationWasNotAnsweredIsFoundBehindAFollowerThatLags(t *testing.T) {
	t.Parallel()
	server := zktest.RunT(t)
	follower, err := server.Listen("follower")
	require.NoError(t, err)

	// given a client that comes back to the follower when its connection breaks
	wire := &wire{}
	var dials atomic.Int32
	c, err := recipes.NewClient(recipes.Config{
		Servers: []string{server.Addr()},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				addr = follower.Addr()
			}
			return wire.dial(ctx, network, addr)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	m := mustMutex(t, c, users)
	g, err := m.Acquire(t.Context()) // else there is more to create
	require.NoError(t, err)
	require.NoError(t, g.Release(t.Context()))
	follower.Lag(-1)

	// when the creation of its node is not answered
	creates := server.Zxid()
	wire.behind(opCreate, 0, func() {
		for server.Zxid() == creates { // until it was executed
			<-time.After(time.Millisecond)
		}
		wire.cut()
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	g, err = m.Acquire(ctx)

	// then it holds by that node
	require.NoError(t, err)
	require.True(t, wire.unset())
	require.Equal(t, int32(2), dials.Load())
	var children []string
	for _, node := range server.Tree(users) {
		if node.Path != users {
			children = append(children, node.Path)
		}
	}
	require.Equal(t, []string{g.Path()}, children)
	require.NoError(t, g.Release(t.Context()))
}
