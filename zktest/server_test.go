package zktest

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestNodesAreCreatedReadChangedAndDeleted(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)

	require.Equal(t, "/a", c.create("/a", wire.Persistent))
	require.Equal(t, "/a/n-0000000000", c.create("/a/n-", wire.EphemeralSequential))
	code, d := c.do(wire.OpGetData, "/a", false)
	require.Equal(t, wire.OK, code)
	require.Equal(t, "data", string(d.Buffer()))
	code, _ = c.do(wire.OpSetData, "/a", []byte("new"), 7)
	require.Equal(t, wire.BadVersion, code)
	code, _ = c.do(wire.OpSetData, "/a", []byte("new"), 0)
	require.Equal(t, wire.OK, code)
	code, _ = c.do(wire.OpDelete, "/a", -1)
	require.Equal(t, wire.NotEmpty, code)

	node, err := s.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "new", string(node.Data))
	require.Equal(t, int32(1), node.Stat.Version)
	require.Equal(t, 1, node.Stat.NumChildren)
	require.Len(t, s.Tree("/a"), 2)
	require.Equal(t, int64(6), s.Zxid(), "each attempt to write takes a transaction, and so does the session")
}

func TestSessionExpiresAtTheTickAfterItsTimeoutAndTakesItsNodesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe(), TickTime(2*time.Second))
		holder, witness := dial(t, s), dial(t, s)
		holder.create("/lock", wire.Ephemeral)
		require.Equal(t, wire.OK, witness.exists("/lock", true))
		start := time.Now()

		// The witness lives on.
		witness.timeout = time.Hour
		for range 4 {
			<-time.After(2500 * time.Millisecond)
			require.Empty(t, witness.heard())
		}
		body, err := witness.frame()

		require.NoError(t, err)
		_, rest, err := wire.ParseReplyHeader(body)
		require.NoError(t, err)
		event, path, err := wire.ParseNotification(rest)
		require.NoError(t, err)
		require.Equal(t, "NodeDeleted /lock", event.String()+" "+path)
		require.Equal(t, 12*time.Second, time.Since(start), "10s, rounded up to a whole tick")
		require.Zero(t, holder.reopen(s), "it is told when it comes back")
	})
}

func TestSessionLivesOnWhenItsClientComesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		c.create("/lock", wire.Ephemeral)
		for range 5 {
			<-time.After(9 * time.Second)
			require.NotZero(t, c.reopen(s))
		}
		require.Equal(t, wire.OK, c.exists("/lock", false))
		require.Len(t, s.Sessions(), 1)
	})
}

func TestComingBackEndsTheOldConnectionAndNeedsThePassword(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	thief := &client{t: t, session: c.session, password: make([]byte, 16), timeout: c.timeout}
	thief.open(s, "", s.Addr())

	require.Zero(t, thief.greet())
	c.isCut()
	require.NotZero(t, c.reopen(s))
	require.Equal(t, wire.NoNode, c.exists("/x", false))
}

func TestExpireEndsASessionAtOnce(t *testing.T) {
	s := RunT(t)
	c, witness := dial(t, s), dial(t, s)
	c.create("/lock", wire.Ephemeral)
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
	c.create("/lock", wire.Ephemeral)

	require.True(t, s.Disconnect(c.session))

	c.isCut()
	require.False(t, s.Disconnect(c.session), "it has no connection any more")
	require.NotZero(t, c.reopen(s))
	require.Equal(t, wire.OK, c.exists("/lock", false))
}

func TestStallPingsLetsASessionDieThatIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		c.create("/lock", wire.Ephemeral)
		require.True(t, s.StallPings(c.session))
		start := time.Now()
		for range 11 {
			<-time.After(time.Second)
			require.Equal(t, wire.OK, c.exists("/lock", false))
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
			c.create("/lock", wire.Ephemeral)
			c.exists("/lock", true)
			address := s.Addr()

			require.NoError(t, s.Restart())

			c.isCut()
			require.Equal(t, address, s.Addr())
			require.Empty(t, s.Watches())
			require.NotZero(t, c.reopen(s))
			require.Equal(t, wire.OK, c.exists("/lock", false))
		})
	}
}

func TestStoppedServerRefusesConnectionsAndEndsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		c.create("/lock", wire.Ephemeral)

		s.Stop()
		_, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.ErrorContains(t, err, "connection refused")
		<-time.After(time.Hour)
		require.NoError(t, s.Restart())

		require.NotZero(t, c.reopen(s), "its timeout begins anew")
		require.Equal(t, wire.OK, c.exists("/lock", false))
	})
}

func TestLoseDataTurnsClientsAwayThatHaveSeenMore(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	c.create("/a", wire.Persistent)

	s.LoseData()

	c.isCut()
	require.Zero(t, c.reopen(s))
	require.Empty(t, s.Sessions())
	fresh := dial(t, s)
	require.Equal(t, wire.NoNode, fresh.exists("/a", false))
	require.Equal(t, int64(1), s.Zxid())
}

func TestAdvanceMovesTheClock(t *testing.T) {
	s := RunT(t, FrozenClock(), TTL())
	c := dial(t, s)
	c.create("/lock", wire.Ephemeral)
	_, _ = c.do(wire.OpCreateTTL, "/brief", []byte{}, tree.OpenACL, wire.TTL, int64(60_000))

	s.Advance(9 * time.Second)
	require.Len(t, s.Sessions(), 1)
	require.Equal(t, wire.OK, c.exists("/lock", false), "which keeps it alive")
	s.Advance(12 * time.Second)
	require.Empty(t, s.Sessions())
	require.Empty(t, s.Tree("/lock"))
	require.Len(t, s.Tree("/brief"), 1)
	s.Advance(time.Minute)
	require.Empty(t, s.Tree("/brief"))
}

func TestSweepDeletesWhatNobodyNeedsAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe(), TTL())
		c := dial(t, s)
		c.timeout = time.Hour
		_, _ = c.do(wire.OpCreateContainer, "/empty", []byte{}, tree.OpenACL, wire.Container)
		_, _ = c.do(wire.OpCreateContainer, "/used", []byte{}, tree.OpenACL, wire.Container)
		_, _ = c.do(wire.OpCreateTTL, "/old", []byte{}, tree.OpenACL, wire.TTL, int64(1000))
		_, _ = c.do(wire.OpCreateTTL, "/young", []byte{}, tree.OpenACL, wire.TTL, int64(time.Hour/time.Millisecond))
		c.create("/used/x", wire.Persistent)
		_, _ = c.do(wire.OpDelete, "/used/x", -1)
		s.Sweep()
		require.Empty(t, s.Tree("/used"), "it had a child")
		require.Len(t, s.Tree("/empty"), 1, "it never had one")
		require.Len(t, s.Tree("/old"), 1)

		<-time.After(61 * time.Second)

		require.Empty(t, s.Tree("/old"), "the server sweeps by itself")
		require.Len(t, s.Tree("/young"), 1)
	})
}

func TestNodesWithATimeToLiveAreUnknownUnlessAllowed(t *testing.T) {
	c := dial(t, RunT(t))
	code, _ := c.do(wire.OpCreateTTL, "/a", []byte{}, tree.OpenACL, wire.TTL, int64(1000))
	require.Equal(t, wire.Unimplemented, code)
}

func TestEventsComeBeforeTheReplyThatShowsTheNewState(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	c.create("/a", wire.Persistent)
	_, _ = c.do(wire.OpGetChildren, "/", true)
	_, _ = c.do(wire.OpGetChildren, "/a", true)
	_, _ = c.do(wire.OpGetData, "/a", true)
	require.Len(t, s.Watches(), 3)

	xid := c.ask(wire.OpDelete, "/a", -1)
	_, _ = c.answer(xid)

	require.Equal(t, []string{"NodeDeleted /a", "NodeChildrenChanged /"}, c.events, "one deletion is told once")
	require.Empty(t, s.Watches())
}

func TestWatchesAreHintsThatSurviveAReconnect(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	for _, path := range []string{"/gone", "/changed", "/same"} {
		c.create(path, wire.Persistent)
	}
	seen := c.seen
	require.NoError(t, s.Delete("/gone"))
	require.NoError(t, s.Set("/changed", []byte("x")))
	require.NoError(t, s.Create("/made/below", nil))
	c.seen = seen
	require.NotZero(t, c.reopen(s))

	_, _ = c.do(wire.OpSetWatches, seen, []string{"/gone", "/changed", "/same"}, []string{"/made"}, []string{"/same"})

	require.Equal(t, []string{"NodeDeleted /gone", "NodeDataChanged /changed", "NodeCreated /made"}, c.heard())
	require.NoError(t, s.Delete("/same"))
	require.Equal(t, []string{"NodeDeleted /same"}, c.heard())
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
	writer.create("/a", wire.Persistent)
	require.Equal(t, wire.NoNode, reader.exists("/a", false))
	writer.create("/b", wire.Persistent)
	require.Empty(t, reader.heard())
	writer.create("/c", wire.Persistent)
	require.Equal(t, []string{"NodeCreated /a"}, reader.heard(), "two behind, not three")
	require.Equal(t, wire.NoNode, reader.exists("/b", false))

	_, _ = reader.do(wire.OpSync, "/")
	require.Equal(t, wire.OK, reader.exists("/c", false))
	follower.Lag(-1)
	writer.create("/d", wire.Persistent)
	writer.create("/e", wire.Persistent)
	require.Equal(t, wire.NoNode, reader.exists("/d", false))
	reader.create("/own", wire.Persistent)
	require.Equal(t, wire.OK, reader.exists("/e", false), "what one writes one sees, and all before it")

	ahead := &client{t: t, timeout: time.Minute}
	writer.create("/f", wire.Persistent)
	ahead.seen = s.Zxid()
	ahead.open(s, "", follower.Addr())
	require.Zero(t, ahead.greet(), "who has seen more must go elsewhere")
	follower.Lag(0)
	require.Equal(t, wire.OK, reader.exists("/f", false))
	writer.create("/g", wire.Persistent)
	require.Equal(t, wire.OK, reader.exists("/g", false))
}

func TestPartitionKeepsWhatIsSentUntilHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		cut, other := dialAs(t, s, "A"), dial(t, s)
		cut.create("/a", wire.Persistent)
		cut.exists("/a", true)

		s.Partition("A")
		require.NoError(t, s.Set("/a", nil))
		xid := cut.ask(wire.OpCreate, "/late", []byte{}, tree.OpenACL, wire.Persistent)
		require.Equal(t, wire.OK, other.exists("/a", false))
		synctest.Wait()
		require.Empty(t, s.Tree("/late"))
		s.Heal("A")

		h, _ := cut.answer(xid)
		require.Equal(t, wire.OK, h.Code)
		require.Equal(t, []string{"NodeDataChanged /a"}, cut.events)
	})
}

func TestPartitionedClientLosesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dialAs(t, s, "A")
		c.create("/lock", wire.Ephemeral)
		s.Partition("A")
		c.ask(wire.OpPing)
		<-time.After(13 * time.Second)
		require.Empty(t, s.Tree("/lock"))
		s.Heal()
		c.isCut()
	})
}

func TestNobodyIsHeardWithoutPermission(t *testing.T) {
	s := RunT(t)
	owner, stranger := dial(t, s), dial(t, s)
	code, _ := owner.do(wire.OpAuth, 0, "digest", []byte("me:secret"))
	require.Equal(t, wire.OK, code)
	mine := []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}}
	code, _ = owner.do(wire.OpCreate, "/mine", []byte("x"), mine, wire.Persistent)
	require.Equal(t, wire.OK, code)

	require.Equal(t, wire.OK, stranger.exists("/mine", true), "anybody may ask whether it exists")
	code, _ = stranger.do(wire.OpGetData, "/mine", false)
	require.Equal(t, wire.NoAuth, code)
	code, _ = owner.do(wire.OpSetData, "/mine", []byte("y"), -1)
	require.Equal(t, wire.OK, code)
	require.Empty(t, stranger.heard(), "since CVE-2024-23944")

	code, _ = stranger.do(wire.OpCreate, "/theirs", []byte{}, mine, wire.Persistent)
	require.Equal(t, wire.InvalidACL, code, "who has shown nothing is nobody")
	code, _ = stranger.do(wire.OpAuth, 0, "kerberos", []byte("x"))
	require.Equal(t, wire.AuthFailed, code)
	stranger.isCut()
}

func TestMalformedFramesEndTheConnectionOrAreRefused(t *testing.T) {
	s := RunT(t)
	for name, frame := range map[string][]byte{
		"too long":        {0x7f, 0, 0, 0},
		"negative":        {0xff, 0xff, 0xff, 0xff},
		"no header":       {0, 0, 0, 4, 0, 0, 0, 1},
		"unknown request": {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 99},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			c.write(frame)
			c.isCut()
		})
	}
	c := dial(t, s)
	code, _ := c.do(wire.OpCreate, "/a")
	require.Equal(t, wire.MarshallingError, code)
	code, _ = c.do(wire.OpGetData, 500)
	require.Equal(t, wire.MarshallingError, code)
	require.Equal(t, wire.NoNode, c.exists("/a", false), "the connection lives on")
}

func TestConnectionThatDoesNotSpeakZooKeeperIsCut(t *testing.T) {
	s := RunT(t)
	nc, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	c := &client{t: t, nc: nc}
	c.write([]byte("GET / HTTP/1.1\r\n\r\n"))
	c.isCut()
}

func TestListenersWithTLS(t *testing.T) {
	server, roots := certificate(t)
	s := RunT(t, TLS(server))
	nc, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13})
	require.NoError(t, err)
	c := &client{t: t, nc: nc, timeout: time.Minute}
	require.NotZero(t, c.greet())
	c.create("/a", wire.Persistent)

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
