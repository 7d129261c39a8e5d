package nemesis

import (
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestSilenceEndsWithWhatGivesSomethingUp(t *testing.T) {
	clock := time.Duration(0)
	quiet := &silence{now: func() time.Duration { return clock }, least: 10}
	proxy, err := zktest.NewProxy(zktest.RunT(t).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	quiet.listen(proxy)
	conn, _, err := zk.Connect([]string{proxy.Addr()}, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(t, err)
	create := func(path string) *zk.CreateRequest {
		return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)}
	}

	clock = 100
	_, err = conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = conn.Multi(create("/b"), create("/c"))
	require.NoError(t, err)
	_, err = conn.Set("/a", nil, -1)
	require.NoError(t, err)
	_, _, err = conn.Get("/a")
	require.NoError(t, err)
	require.Equal(t, []Silence{{0, 100}}, quiet.all(), "one that goes on")

	require.NoError(t, conn.Delete("/a", -1))
	clock = 200
	_, err = conn.Multi(create("/d"), &zk.DeleteRequest{Path: "/b", Version: -1})
	require.NoError(t, err)
	clock = 209 // too short
	require.NoError(t, conn.Delete("/c", -1))
	clock = 300
	conn.Close() // waits a second for it at most
	harness.Eventually(t, func() bool { return len(quiet.all()) == 4 }, "the end of the session ends the silence")
	require.Equal(t, []Silence{{0, 100}, {100, 200}, {209, 300}, {300, 300}}, quiet.all())
}
