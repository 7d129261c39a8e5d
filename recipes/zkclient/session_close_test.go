package zkclient

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A closingClient has an ephemeral node, at a server of a bubble, and two addresses for that.
type closingClient struct {
	*Client
	t      *testing.T
	server *zktest.Server
	node   string
	log    *strings.Builder

	mu   sync.Mutex
	mute string // the address that takes connections and says nothing
	down bool   // no address takes any
}

// change changes how the servers are.
func (c *closingClient) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func newClosingClient(t *testing.T) *closingClient {
	t.Helper()
	c := &closingClient{t: t, log: new(strings.Builder), server: zktest.RunT(t, zktest.Pipe())}
	var err error
	c.Client, err = NewClient(Config{
		Servers: []string{"a:1", "b:1"}, SessionTimeout: 10 * time.Second, Dialer: c.dial,
		Logger: slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	require.NoError(t, err)
	s, err := c.Usable(t.Context())
	require.NoError(t, err)
	c.node, err = s.Create(t.Context(), "/a", nil, zk.FlagEphemeral)
	require.NoError(t, err)
	return c
}

func (c *closingClient) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	mute, down := address == c.mute, c.down
	c.mu.Unlock()
	switch {
	case down:
		return nil, syscall.ECONNREFUSED
	case mute:
		near, far := net.Pipe()
		c.t.Cleanup(func() { _ = far.Close() })
		return near, nil
	}
	return c.server.Dial(ctx, network, c.server.Addr())
}

// connected is the address that the client is connected to.
func (c *closingClient) connected() string {
	s := c.Current()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.server
}

// other is the address that the client is not connected to.
func (c *closingClient) other() string {
	if c.connected() == "a:1" {
		return "b:1"
	}
	return "a:1"
}

// hasNode reports whether the client's node is there.
func (c *closingClient) hasNode() bool {
	_, err := c.server.Get(c.node)
	return err == nil
}

func TestASessionIsClosedAlthoughTheConnectionBreaks(t *testing.T) {
	closing := zktest.Op(zktest.CloseSession)
	for name, breaks := range map[string]func(c *closingClient, id int64){
		"before the request": func(c *closingClient, _ int64) { c.server.On(closing.Nth(1)).DropRequest() },
		"before the answer":  func(c *closingClient, _ int64) { c.server.On(closing.Nth(1)).DropReply() },
		"and it is refused":  func(c *closingClient, _ int64) { c.server.On(closing.Times(2)).Fail(zktest.OperationTimeout) },
		"and a server is mute": func(c *closingClient, _ int64) {
			c.change(func() { c.mute = c.other() })
			c.server.On(closing.Nth(1)).DropRequest()
		},
		"earlier": func(c *closingClient, id int64) {
			c.change(func() { c.down = true })
			c.server.Disconnect(id)
			time.AfterFunc(time.Second, func() { c.change(func() { c.down = false }) })
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClosingClient(t)
				require.True(t, c.hasNode())
				id, _ := c.Session()
				breaks(c, id)
				begun := time.Now()
				require.NoError(t, c.Close(t.Context()))
				require.False(t, c.hasNode())
				require.Less(t, time.Since(begun), time.Second+closingTakes, "the library takes a second at most")
				require.NotContains(t, c.log.String(), "not at the servers")
			})
		})
	}
}

// The server that was connected and says nothing more is asked last.
func TestAClientThatClosesAsksAnotherServerFirst(t *testing.T) {
	for range 10 { // the others are asked in any order
		synctest.Test(t, func(t *testing.T) {
			c := newClosingClient(t)
			c.change(func() { c.mute = c.connected() })
			c.server.On(zktest.Op(zktest.CloseSession).Nth(1)).DropRequest()
			begun := time.Now()
			require.NoError(t, c.Close(t.Context()))
			require.False(t, c.hasNode())
			require.Less(t, time.Since(begun), time.Second/2)
		})
	}
}

func TestASessionThatCannotBeClosedIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosingClient(t)
		c.server.Partition()
		begun := time.Now()
		require.NoError(t, c.Close(t.Context()))
		require.LessOrEqual(t, time.Since(begun), time.Second+closingTakes+time.Millisecond)
		require.True(t, c.hasNode())
		require.Equal(t, 1, strings.Count(c.log.String(), "its nodes stay until it expires"))
		c.server.Heal()
	})
}

func TestASessionIsNotClosedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosingClient(t)
		connects := c.server.On(zktest.Op(zktest.Connect)).Delay(0)
		defer connects.Remove()
		require.NoError(t, c.Close(t.Context()))
		require.False(t, c.hasNode())
		require.Zero(t, connects.Fired())
	})
}

// A server may refuse all that comes from strangers.
func TestASessionIsClosedWithTheCredentialsOfItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t, zktest.Pipe())
		c, err := NewClient(Config{
			Servers: []string{server.Addr()}, Dialer: server.Dial, Auth: &Digest{User: "batch", Password: "secret"},
		})
		require.NoError(t, err)
		_, err = c.Usable(t.Context())
		require.NoError(t, err)
		auth := server.On(zktest.Op(zktest.Auth)).Delay(0)
		server.On(zktest.Op(zktest.CloseSession).Nth(1)).DropRequest()
		require.NoError(t, c.Close(t.Context()))
		require.Equal(t, 1, auth.Fired())
	})
}

func TestASessionThatHasExpiredIsNotClosedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClosingClient(t)
		connects := c.server.On(zktest.Op(zktest.Connect)).Delay(0)
		id, _ := c.Session()
		c.server.Expire(id)
		require.Eventually(t, func() bool {
			next, _ := c.Session()
			return next != id && next != 0
		}, time.Minute, time.Second)
		require.Equal(t, 2, connects.Fired(), "once to learn of the end, once for the next session")
		require.NoError(t, c.Close(t.Context()))
	})
}
