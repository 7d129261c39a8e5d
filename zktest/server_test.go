package zktest

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zkwire"
)

func TestSessionLivesOnWhenItsClientComesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		c.create("/lock", zkwire.Ephemeral)
		for range 5 {
			<-time.After(9 * time.Second)
			require.NotZero(t, c.reopen(s))
		}
		require.Equal(t, zkwire.OK, c.exists("/lock", false))
		require.Len(t, s.Sessions(), 1)
	})
}

func TestExpireEndsASessionAtOnce(t *testing.T) {
	s := RunT(t)
	c, witness := dial(t, s), dial(t, s)
	c.create("/lock", zkwire.Ephemeral)
	witness.exists("/lock", true)

	require.True(t, s.Expire(c.session))

	c.isCut()
	require.Equal(t, []string{"NodeDeleted /lock"}, witness.heard())
	require.Zero(t, c.reopen(s))
	require.False(t, s.Expire(c.session))
}

func TestDisconnectLeavesTheSession(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	c.create("/lock", zkwire.Ephemeral)

	require.True(t, s.Disconnect(c.session))

	c.isCut()
	require.False(t, s.Disconnect(c.session), "it has no connection any more")
	require.NotZero(t, c.reopen(s))
	require.Equal(t, zkwire.OK, c.exists("/lock", false))
}

func TestStallPingsLetsASessionDieThatIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		c.create("/lock", zkwire.Ephemeral)
		require.True(t, s.StallPings(c.session))
		start := time.Now()
		for range 11 {
			<-time.After(time.Second)
			require.Equal(t, zkwire.OK, c.exists("/lock", false))
		}
		c.isCut()
		require.Equal(t, 12*time.Second, time.Since(start))
		require.Empty(t, s.Tree("/lock"))
		require.False(t, s.StallPings(c.session))
	})
}

func TestRestartKeepsNodesAndSessionsButNoWatches(t *testing.T) {
	for name, opts := range map[string][]Option{"tcp": nil, "pipe": {Pipe()}} {
		t.Run(name, func(t *testing.T) {
			s := RunT(t, opts...)
			c := dial(t, s)
			c.create("/lock", zkwire.Ephemeral)
			c.exists("/lock", true)
			address := s.Addr()

			require.NoError(t, s.Restart())

			c.isCut()
			require.Equal(t, address, s.Addr())
			require.Empty(t, s.Watches())
			require.NotZero(t, c.reopen(s))
			require.Equal(t, zkwire.OK, c.exists("/lock", false))
		})
	}
}

func TestStoppedServerRefusesConnectionsAndEndsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		c.create("/lock", zkwire.Ephemeral)

		s.Stop()
		_, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.ErrorContains(t, err, "connection refused")
		<-time.After(time.Hour)
		require.NoError(t, s.Restart())

		require.NotZero(t, c.reopen(s), "its timeout begins anew")
		require.Equal(t, zkwire.OK, c.exists("/lock", false))
	})
}

func TestLoseDataTurnsClientsAwayThatHaveSeenMore(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	c.create("/a", zkwire.Persistent)

	s.LoseData()

	c.isCut()
	require.Zero(t, c.reopen(s))
	require.Empty(t, s.Sessions())
	fresh := dial(t, s)
	require.Equal(t, zkwire.NoNode, fresh.exists("/a", false))
	require.Equal(t, int64(1), s.Zxid())
}

func TestAdvanceMovesTheClock(t *testing.T) {
	s := RunT(t, FrozenClock(), TTL())
	c := dial(t, s)
	c.create("/lock", zkwire.Ephemeral)
	_, _ = c.do(zkwire.OpCreateTTL, "/brief", []byte{}, tree.OpenACL, zkwire.TTL, int64(60_000))

	s.Advance(9 * time.Second)
	require.Len(t, s.Sessions(), 1)
	require.Equal(t, zkwire.OK, c.exists("/lock", false), "which keeps it alive")
	s.Advance(12 * time.Second)
	require.Empty(t, s.Sessions())
	require.Empty(t, s.Tree("/lock"))
	require.Len(t, s.Tree("/brief"), 1)
	s.Advance(time.Minute)
	require.Empty(t, s.Tree("/brief"))
}

func TestNodesWithATimeToLiveAreUnknownUnlessAllowed(t *testing.T) {
	c := dial(t, RunT(t))
	code, _ := c.do(zkwire.OpCreateTTL, "/a", []byte{}, tree.OpenACL, zkwire.TTL, int64(1000))
	require.Equal(t, zkwire.Unimplemented, code)
}

func TestLaggingListenerShowsThePastUntilItsClientWritesOrSyncs(t *testing.T) {
	s := RunT(t, Pipe())
	follower, err := s.Listen("B")
	require.NoError(t, err)
	writer := dial(t, s)
	reader := &client{t: t, timeout: time.Minute}
	reader.open(s, "", follower.Addr())
	require.NotZero(t, reader.greet())
	reader.exists("/a", true)

	follower.Lag(2)
	writer.create("/a", zkwire.Persistent)
	require.Equal(t, zkwire.NoNode, reader.exists("/a", false))
	writer.create("/b", zkwire.Persistent)
	require.Empty(t, reader.heard())
	writer.create("/c", zkwire.Persistent)
	require.Equal(t, []string{"NodeCreated /a"}, reader.heard(), "two behind, not three")
	require.Equal(t, zkwire.NoNode, reader.exists("/b", false))

	_, _ = reader.do(zkwire.OpSync, "/")
	require.Equal(t, zkwire.OK, reader.exists("/c", false))
	follower.Lag(-1)
	writer.create("/d", zkwire.Persistent)
	writer.create("/e", zkwire.Persistent)
	require.Equal(t, zkwire.NoNode, reader.exists("/d", false))
	reader.create("/own", zkwire.Persistent)
	require.Equal(t, zkwire.OK, reader.exists("/e", false), "what one writes one sees, and all before it")

	ahead := &client{t: t, timeout: time.Minute}
	writer.create("/f", zkwire.Persistent)
	ahead.seen = s.Zxid()
	ahead.open(s, "", follower.Addr())
	require.Zero(t, ahead.greet(), "who has seen more must go elsewhere")
	follower.Lag(0)
	require.Equal(t, zkwire.OK, reader.exists("/f", false))
	writer.create("/g", zkwire.Persistent)
	require.Equal(t, zkwire.OK, reader.exists("/g", false))
}

func TestListenersWithTLS(t *testing.T) {
	server, roots := certificate(t)
	s := RunT(t, TLS(server))
	nc, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13})
	require.NoError(t, err)
	c := &client{t: t, nc: nc, timeout: time.Minute}
	require.NotZero(t, c.greet())
	c.create("/a", zkwire.Persistent)

	plain := &client{t: t, timeout: time.Minute}
	plain.open(s, "", s.Addr())
	require.Zero(t, plain.greet())
}

func TestWrongOptionsAreAllNamed(t *testing.T) {
	_, err := Start(TickTime(0), SessionTimeouts(2, 1), FourLetterWords("hello"), DataDir(""), SweepInterval(0), TLS(nil))
	for _, want := range []string{"tick time 0s", "make no sense", `"hello"`, "needs a directory", "sweep interval", "needs a configuration"} {
		require.ErrorContains(t, err, want)
	}
	_, err = Start(Addr("nowhere:at:all"))
	require.ErrorContains(t, err, "zktest: listen tcp")
}

func TestClosedServerIsGone(t *testing.T) {
	s, err := Start()
	require.NoError(t, err)
	c := dial(t, s)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	c.isCut()
	require.Error(t, s.Restart())
	_, err = s.Listen("B")
	require.Error(t, err)
	_, err = net.Dial("tcp", s.Addr())
	require.Error(t, err)
}

func TestAdministratorNeedsNoPermission(t *testing.T) {
	s := RunT(t)
	require.NoError(t, s.Create("/a/b/c", []byte("x")))
	require.ErrorIs(t, s.Create("/a/b", nil), NodeExists)
	require.ErrorIs(t, s.Set("/none", nil), NoNode)
	require.ErrorIs(t, s.Delete("/none"), NoNode)
	require.ErrorIs(t, s.Delete("/"), BadArguments)
	require.ErrorIs(t, s.Delete("/zookeeper/quota"), BadArguments)
	require.ErrorIs(t, s.Create("no slash", nil), BadArguments)
	_, err := s.Get("/none")
	require.ErrorIs(t, err, NoNode)
	require.Equal(t, "/a \"\" v0 zxid 1\n/a/b \"\" v0 zxid 2\n/a/b/c \"x\" v0 zxid 3\n", s.Dump())
	require.NoError(t, s.Delete("/a"))
	require.Empty(t, s.Dump())
}
