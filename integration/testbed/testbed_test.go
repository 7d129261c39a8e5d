package testbed

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/netfault"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// The tests of this package hold both backends to what Server promises.

const soon = 3 * time.Minute

var shared Shared

func TestMain(m *testing.M) {
	os.Exit(shared.Main(m, func() error { return goleak.Find() }))
}

func visit(t testing.TB, server Server, timeout time.Duration) *zkserver.Guest {
	t.Helper()
	return zkserver.Visit(t, server.Addr(), timeout)
}

// settle makes an ephemeral node.
func settle(t testing.TB, g *zkserver.Guest, path string) {
	t.Helper()
	_, err := g.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestExpiredSessionIsGoneWithItsNodesAndItsClientLearnsIt(t *testing.T) {
	t.Parallel()
	server := shared.Server(t)
	g := visit(t, server, 10*time.Second)
	node := Root(t)
	settle(t, g, node)
	nodes, err := server.Ephemerals(t.Context())
	require.NoError(t, err)
	require.Contains(t, nodes, node)
	id, password := g.SessionID(), zkserver.Password(g.SessionID())

	require.NoError(t, server.Expire(t.Context(), id, password))

	nodes, err = server.Ephemerals(t.Context())
	require.NoError(t, err)
	require.NotContains(t, nodes, node)
	g.Becomes(zk.StateExpired)
	require.Error(t, server.Expire(t.Context(), id, password))
}

func TestEachWatchIsListed(t *testing.T) {
	t.Parallel()
	server := shared.Server(t)
	one, two := visit(t, server, 10*time.Second), visit(t, server, 10*time.Second)
	node := Root(t)
	settle(t, one, node)
	watched := func() (n int) {
		t.Helper()
		paths, err := server.Watches(t.Context())
		require.NoError(t, err)
		for _, path := range paths {
			if path == node {
				n++
			}
		}
		return n
	}
	require.Zero(t, watched())
	for n, g := range []*zkserver.Guest{one, two} {
		_, _, _, err := g.GetW(node)
		require.NoError(t, err)
		require.Equal(t, n+1, watched())
	}
	_, _, _, err := one.ChildrenW("/")
	require.NoError(t, err)
	require.Equal(t, 2, watched())

	_, err = two.Set(node, []byte("x"), -1)
	require.NoError(t, err)
	require.Zero(t, watched())
}

func TestSessionTimeoutsAreGrantedBetweenTheShortestAndTheLongest(t *testing.T) {
	t.Parallel()
	server := Start(t, Settings{Tick: 100 * time.Millisecond, ShortestSession: time.Second, LongestSession: 3 * time.Second})
	for asked, granted := range map[time.Duration]time.Duration{
		100 * time.Millisecond: time.Second,
		2 * time.Second:        2 * time.Second,
		time.Minute:            3 * time.Second,
	} {
		require.Equal(t, granted, client(t, server, asked).SessionTimeout(), asked)
	}
	require.Equal(t, 400*time.Millisecond, client(t, shared.Server(t), 10*time.Millisecond).SessionTimeout())
	require.Equal(t, 10*time.Minute, client(t, shared.Server(t), time.Hour).SessionTimeout())
}

// client connects a client that comes back by itself.
func client(t testing.TB, server Server, timeout time.Duration) *lock.Client {
	t.Helper()
	c, err := lock.NewClient(lock.Config{Servers: []string{server.Addr()}, SessionTimeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// tenant is a client that has taken a lock.
func tenant(t testing.TB, server Server) (*lock.Client, *lock.Grant) {
	t.Helper()
	c := client(t, server, time.Minute)
	l, err := c.PriorityLock("house")
	require.NoError(t, err)
	grant, err := l.Acquire(t.Context(), lock.Request{})
	require.NoError(t, err)
	return c, grant
}

func TestServerThatEndsGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(Server) error{
		"stopped": Server.Stop, "killed": Server.Kill, "restarted at once": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := Start(t, Settings{})
			addr := server.Addr()
			c, grant := tenant(t, server)
			session, _ := c.Session()
			g := visit(t, server, time.Minute)
			before, err := server.Ephemerals(t.Context())
			require.NoError(t, err)
			require.Len(t, before, 1)

			if end != nil {
				require.NoError(t, end(server))
				_, err := net.Dial("tcp", addr)
				require.Error(t, err)
				require.NoError(t, end(server))
			}
			require.NoError(t, server.Restart(t.Context()))

			g.Becomes(zk.StateDisconnected)
			require.Equal(t, addr, server.Addr())
			after, err := server.Ephemerals(t.Context())
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.NoError(t, grant.Release(t.Context()))
			again, _ := c.Session()
			require.Equal(t, session, again)
		})
	}
}

func TestPausedServerAnswersLater(t *testing.T) {
	t.Parallel()
	server := Start(t, Settings{})
	g := visit(t, server, 20*time.Second)

	require.NoError(t, server.Pause())
	answer := make(chan error, 1)
	go func() {
		_, err := g.Sync("/")
		answer <- err
	}()
	conn, err := net.Dial("tcp", server.Addr()) // no answer here either, but a connection
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	select {
	case err := <-answer:
		require.FailNow(t, "a paused server has answered", "%v", err)
	case <-time.After(300 * time.Millisecond):
	}

	require.NoError(t, server.Resume())
	select {
	case err := <-answer:
		require.NoError(t, err)
	case <-time.After(soon):
		require.FailNow(t, "no answer")
	}
	require.Empty(t, g.States, "it was connected all the time")
}

func TestSessionThatIsSilentDuringAPauseEndsWithIt(t *testing.T) {
	t.Parallel()
	server := Start(t, Settings{})
	proxy := netfault.New(t, server.Addr())
	g := zkserver.Visit(t, proxy.Addr(), time.Second)
	require.Eventually(t, func() bool { // a machine that stands still for a moment ends the session before
		_, err := g.Create("/node", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	}, soon, 10*time.Millisecond)

	// What the client sends to a server that stands still would be read before
	// that looks at its sessions, or after.
	require.NoError(t, proxy.Cut())
	require.NoError(t, server.Pause())
	<-time.After(2 * time.Second) // longer than the session lasts
	require.NoError(t, server.Resume())

	require.Eventually(t, func() bool {
		nodes, err := server.Ephemerals(t.Context())
		return err == nil && len(nodes) == 0
	}, soon, 10*time.Millisecond)
	require.NoError(t, proxy.Pass())
	g.Becomes(zk.StateExpired)
}

func TestClosedServerMayBeClosedAgain(t *testing.T) {
	t.Parallel()
	server, err := Run(t.Context(), Settings{})
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.NoError(t, server.Close())
	_, err = net.Dial("tcp", server.Addr())
	require.Error(t, err)
}

func TestBackendIsSelectedByTheEnvironment(t *testing.T) {
	for value, want := range map[string]Backend{"": Real, "real": Real, "embedded": Embedded} {
		t.Setenv(Variable, value)
		got, err := Selected()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	t.Setenv(Variable, "imaginary")
	_, err := Selected()
	require.EqualError(t, err, `testbed: LOCKKEEPER_TEST_ZK="imaginary" is not a backend; write embedded or real`)
	_, err = Run(context.Background(), Settings{})
	require.Error(t, err)
}
