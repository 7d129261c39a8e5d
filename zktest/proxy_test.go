package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// through connects a client to the server through a proxy.
func through(t testing.TB, p *Proxy, name string) *client {
	t.Helper()
	c := &client{t: t, timeout: 10 * time.Second}
	nc, err := p.Dialer(name)(t.Context(), "", "")
	require.NoError(t, err)
	c.nc = nc
	t.Cleanup(func() { _ = nc.Close() })
	require.NotZero(t, c.greet())
	return c
}

func (p *Proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func TestProxyTellsTheClientThatTheServerHasHungUp(t *testing.T) {
	s := RunT(t)
	p := RunProxyT(t, s.Addr())
	c := through(t, p, "A")
	c.create("/a", wire.Ephemeral)

	require.True(t, s.Expire(c.session))

	c.isCut()
	require.Eventually(t, func() bool { return p.connections() == 0 }, 30*time.Second, time.Millisecond)
}

func TestProxyTellsTheServerThatTheClientHasHungUp(t *testing.T) {
	s := RunT(t)
	c := through(t, RunProxyT(t, s.Addr()), "A")
	require.NoError(t, c.nc.Close())
	require.Eventually(t, func() bool { return !s.Sessions()[0].Connected }, 30*time.Second, time.Millisecond)
}

func TestProxyDropsAReplyInFrontOfAServer(t *testing.T) {
	s := RunT(t)
	p := RunProxyT(t, s.Addr())
	c, other := through(t, p, "A"), through(t, p, "B")
	rule := p.On(Op(Create).Path("/a").From("A")).DropReply()

	c.ask(wire.OpCreate, "/a", []byte{}, tree.OpenACL, wire.Persistent)

	c.isCut()
	require.Equal(t, 1, rule.Fired())
	require.Equal(t, wire.OK, other.exists("/a", false), "it was executed")
}

func TestProxyLetsGoOfAClientThatDoesNotCloseItsSide(t *testing.T) {
	s := RunT(t)
	p := RunProxyT(t, s.Addr())
	c := &client{t: t, timeout: 10 * time.Second}
	c.open(s, "", p.Addr())
	require.NotZero(t, c.greet())
	p.On(Op(Create)).DropRequest()

	c.ask(wire.OpCreate, "/a", []byte{}, tree.OpenACL, wire.Persistent)

	require.Eventually(t, func() bool { return p.connections() == 0 }, 30*time.Second, 10*time.Millisecond, "after a moment")
}
