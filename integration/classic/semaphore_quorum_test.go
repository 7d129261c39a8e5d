package classic

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/testbed"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A cluster is what a client needs and a test can make unable to serve.
type cluster struct {
	servers []string
	cripple func() error
	repair  func(context.Context) error
}

// newCluster is three real servers, of which two are stopped, or the one of the
// embedded kind.
func newCluster(t *testing.T) cluster {
	t.Helper()
	backend, err := testbed.Selected()
	require.NoError(t, err)
	if backend == testbed.Embedded {
		server := testbed.Start(t, testbed.Settings{})
		return cluster{[]string{server.Addr()}, server.Stop, server.Restart}
	}
	e, err := zkserver.RunEnsemble(t.Context(), zkserver.WithSessionTimeouts(time.Second, time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	return cluster{e.Addrs(), func() error {
		follower := e.Servers()[0]
		if follower == leader {
			follower = e.Servers()[1]
		}
		if err := leader.Stop(); err != nil {
			return err
		}
		return follower.Stop()
	}, e.Restart}
}

// Curator S14
func TestPermitsStopWithoutAQuorumAndGoOnWithOne(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	desk := &room{limit: 2}
	var turns atomic.Int64

	// given workers that take permits and return them, over and over
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var crowd []*call
	h := &house{t: t, story: newStory(t)}
	for i := range 4 {
		c, err := recipes.NewClient(recipes.Config{Servers: cluster.servers, SessionTimeout: 30 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			require.NoError(t, c.Close(ctx))
		})
		require.NoError(t, c.Ready(t.Context()))
		s, err := c.Semaphore(desks, permits(2))
		require.NoError(t, err)
		crowd = append(crowd, h.begin(func(context.Context) error {
			for ctx.Err() == nil {
				g, err := s.Acquire(ctx)
				if err != nil { // no answer for long
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
					}
					continue
				}
				name := fmt.Sprint(i)
				desk.enter(name)
				turns.Add(1)
				desk.leave(name)
				_ = g.Release(context.WithoutCancel(ctx))
			}
			return nil
		}))
	}
	goesOn := func() {
		t.Helper()
		before := turns.Load()
		require.Eventually(t, func() bool { return turns.Load() > before+20 }, soon, 5*time.Millisecond)
	}
	goesOn()

	// when the quorum is lost
	require.NoError(t, cluster.cripple())

	// then operations stop
	var at int64
	require.Eventually(t, func() bool {
		before := at
		at = turns.Load()
		return before == at
	}, soon, 300*time.Millisecond)

	// and go on when it is back
	require.NoError(t, cluster.repair(t.Context()))
	goesOn()
	cancel()
	for _, c := range crowd {
		require.NoError(t, c.ended())
	}
	desk.wasOrderly(t, int(turns.Load()))
}
