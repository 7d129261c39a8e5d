package zktest

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
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
	c.create("/a", zkwire.Ephemeral)

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

	c.ask(zkwire.OpCreate, "/a", []byte{}, tree.OpenACL, zkwire.Persistent)

	c.isCut()
	require.Equal(t, 1, rule.Fired())
	require.Equal(t, zkwire.OK, other.exists("/a", false), "it was executed")
}

func TestProxyLetsGoOfAClientThatDoesNotCloseItsSide(t *testing.T) {
	s := RunT(t)
	p := RunProxyT(t, s.Addr())
	c := &client{t: t, timeout: 10 * time.Second}
	c.open(s, "", p.Addr())
	require.NotZero(t, c.greet())
	p.On(Op(Create)).DropRequest()

	c.ask(zkwire.OpCreate, "/a", []byte{}, tree.OpenACL, zkwire.Persistent)

	require.Eventually(t, func() bool { return p.connections() == 0 }, 30*time.Second, 10*time.Millisecond, "after a moment")
}

func TestProxyPassesFourLetterWords(t *testing.T) {
	require.Equal(t, "imok", word(t, RunProxyT(t, RunT(t).Addr()).Addr(), "ruok"))
}

func TestProxyEndsAConnectionThatItCannotPassOn(t *testing.T) {
	s := RunT(t)
	s.Stop()
	nc, err := RunProxyT(t, s.Addr()).Dialer("A")(t.Context(), "", "")
	require.NoError(t, err)
	_, _ = nc.Write(make([]byte, 48)) // it may have ended by now
	(&client{t: t, nc: nc}).isCut()
}

func TestClosedProxyHasCutItsConnections(t *testing.T) {
	s := RunT(t)
	p := RunProxyT(t, s.Addr())
	c := through(t, p, "A")
	rule := p.On(Op(Create)).Hold()
	c.ask(zkwire.OpCreate, "/a", []byte{}, tree.OpenACL, zkwire.Persistent)
	<-rule.Reached()
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	c.isCut()
	require.Empty(t, s.Tree("/a"))
	_, err := p.Dialer("A")(t.Context(), "", "")
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = NewProxy("no port")
	require.ErrorContains(t, err, "the target of a proxy is host:port")
}

// observer is a test whose failures are expected.
type observer struct {
	*testing.T
	failures []string
	cleanups []func()
}

func (o *observer) Errorf(format string, args ...any) {
	o.failures = append(o.failures, fmt.Sprintf(format, args...))
}

func (o *observer) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }

func TestWhatNeverHappenedFailsTheTest(t *testing.T) {
	s := RunT(t)
	o := &observer{T: t}
	RunProxyT(o, s.Addr()).Partition("unknown")
	RunT(o).On(Op(Create)).DropReply()
	for _, f := range o.cleanups {
		f()
	}
	require.Len(t, o.failures, 2)
	require.Contains(t, o.failures[0], `zktest: never happened: Partition("unknown")`)
	require.Contains(t, o.failures[1], "zktest: never happened: DropReply of create")
}
