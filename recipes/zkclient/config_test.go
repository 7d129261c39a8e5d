package zkclient

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnectStringsAreSplit(t *testing.T) {
	servers, chroot, err := ParseServers("zk1:2181, zk2:2182,zk3,[::1]:2181/tenants/a")
	require.NoError(t, err)
	require.Equal(t, []string{"zk1:2181", "zk2:2182", "zk3:2181", "[::1]:2181"}, servers)
	require.Equal(t, "/tenants/a", chroot)

	_, chroot, err = ParseServers("zk1:2181/")
	require.NoError(t, err)
	require.Empty(t, chroot)
}

func TestEveryBadServerIsReported(t *testing.T) {
	_, _, err := ParseServers("zk1:x,,zk 2:2181,:2181,zk3:70000/../a")
	for _, says := range []string{`"zk1:x"`, `"" is empty`, `"zk 2:2181" contains a blank`, `":2181" has no host`, `"zk3:70000"`, "relative part"} {
		require.ErrorContains(t, err, says)
	}
}

func TestEveryMistakeOfAConfigIsReported(t *testing.T) {
	_, err := NewClient(Config{
		Servers: []string{"nope:x"}, Root: "relative", Chroot: "/a//b", SessionTimeout: -time.Second,
		Margin: -1, ConnectTimeout: -1, Auth: &Digest{User: "a:b"}, QueueLimit: MaxQueueLimit + 1,
	})
	for _, field := range []string{
		"servers", "root", "chroot", "session_timeout", "margin", "connect_timeout", "auth", "queue_limit",
	} {
		require.ErrorContains(t, err, field+":")
	}
}

func TestNothingIsPutIntoZooKeepersOwnNodes(t *testing.T) {
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config/a"} {
		var bad *RequestError
		_, err := NewClient(Config{Root: path})
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "root", bad.Field)
		require.Equal(t, path+" belongs to ZooKeeper itself; write another path, such as /lockkeeper", bad.Reason)
		_, err = NewClient(Config{Chroot: path})
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "chroot", bad.Field)
		_, _, err = ParseServers("zk1:2181" + path)
		require.ErrorContains(t, err, "belongs to ZooKeeper itself")
	}
	require.NoError(t, Config{Root: "/zookeepers"}.Validate())
	require.NoError(t, Config{Root: "/lockkeeper/zookeeper"}.Validate())
}

func TestDefaultsWorkOnALaptop(t *testing.T) {
	var cfg Config
	require.NoError(t, cfg.complete())
	require.Equal(t, []string{"localhost:2181"}, cfg.Servers)
	require.Equal(t, "/lockkeeper", cfg.Root)
	require.Equal(t, 15*time.Second, cfg.SessionTimeout)
}

func TestDeadEnsembleFailsFastOnceTheBreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewClient(Config{Servers: []string{"zk1:2181"}, ConnectTimeout: 400 * time.Millisecond, Dialer: refused})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
		var gone *UnavailableError
		for range 3 {
			_, err = c.Admit(t.Context())
			require.ErrorAs(t, err, &gone)
			require.ErrorContains(t, err, "zk1:2181 does not answer")
		}
		start := time.Now()
		for range 100 {
			_, err = c.Admit(t.Context())
			require.ErrorAs(t, err, &gone)
		}
		require.Zero(t, time.Since(start), "no call waits for ZooKeeper any more")
	})
}

// refused is a dialer of servers that are not there.
func refused(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

func TestClosedClientSaysSo(t *testing.T) {
	c, err := NewClient(Config{Servers: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, c.Close(t.Context()), ErrClosed)
	_, err = c.Admit(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

func TestMarginOfASession(t *testing.T) {
	require.Equal(t, 1250*time.Millisecond, Config{}.MarginOf(15*time.Second))
	require.Equal(t, 4*time.Second, Config{Margin: 4 * time.Second}.MarginOf(15*time.Second))
	require.Equal(t, 5*time.Second, Config{Margin: 6 * time.Second}.MarginOf(10*time.Second), "where the server grants less than was asked for")

	const tick = 2 * time.Second
	require.Equal(t, 250*time.Millisecond, LeastMargin(15*time.Second, tick))
	require.Equal(t, 144*time.Millisecond, LeastMargin(4400*time.Millisecond, tick))
	require.InDelta(t, (140+267)*time.Millisecond, LeastMargin(4*time.Second, tick), float64(time.Millisecond), "a late ping costs a heartbeat")
	require.InDelta(t, (120+133+500)*time.Millisecond, LeastMargin(2*time.Second, tick), float64(time.Millisecond), "shorter than two ticks")
}
