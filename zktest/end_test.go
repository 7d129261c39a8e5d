package zktest

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// closes fails the test if the server does not close soon.
func closes(t *testing.T, s *Server) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.FailNow(t, "Close hangs")
	}
}

func TestCloseWaitsForNoPartitionAndNoRule(t *testing.T) {
	for name, hold := range map[string]func(s *Server, c *client){
		"last frame behind a partition": func(s *Server, c *client) {
			s.Partition()
			require.True(t, s.Expire(c.session))
		},
		"last answer held": func(s *Server, c *client) {
			rule := s.On(Op(CloseSession)).HoldReply()
			c.ask(zkwire.OpCloseSession)
			<-rule.Reached()
		},
		"last answer delayed": func(s *Server, c *client) {
			rule := s.On(Op(CloseSession)).DelayReply(time.Hour)
			c.ask(zkwire.OpCloseSession)
			<-rule.Reached()
		},
		"dial behind a partition": func(s *Server, _ *client) {
			s.Partition("A")
			go func() { _, _ = s.Dialer("A")(context.Background(), "tcp", s.Addr()) }()
		},
		"word behind a partition": func(s *Server, c *client) {
			s.Partition()
			c.open(s, "", s.Addr())
			c.write([]byte("ruok"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start()
			require.NoError(t, err)
			hold(s, dial(t, s))
			closes(t, s)
			closes(t, s)
		})
	}
}

func TestCloseInABubbleBehindAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		dial(t, s)
		s.Partition()
		<-time.After(time.Minute)
		require.NoError(t, s.Close())
	})
}

func TestDialBehindAPartitionEndsWithItsContextOrTheServer(t *testing.T) {
	s, err := Start(Pipe())
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Dial(ended, "tcp", s.Addr())
	require.ErrorIs(t, err, context.Canceled)
	s.Partition("A")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Dialer("A")(context.Background(), "tcp", s.Addr())
		failed <- err
	}()
	closes(t, s)
	require.ErrorContains(t, <-failed, "the server is closed")
}

func TestPartitionHidesThatTheServerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dialAs(t, s, "A")
		s.Partition("A")
		s.Stop()
		require.NoError(t, c.nc.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := c.frame()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		s.Heal("A")
		c.isCut()
	})
}

func TestPartitionIsOneForFourLetterWordsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		nc, err := s.Dial(t.Context(), "", "")
		require.NoError(t, err)
		defer nc.Close()
		s.Partition()
		_, err = nc.Write([]byte("ruok"))
		require.NoError(t, err)
		require.NoError(t, nc.SetReadDeadline(time.Now().Add(time.Minute)))
		b := make([]byte, 4)
		_, err = nc.Read(b)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		s.Heal()
		require.NoError(t, nc.SetReadDeadline(time.Time{}))
		_, err = nc.Read(b)
		require.NoError(t, err)
		require.Equal(t, "imok", string(b))
	})
}

func TestFrameThatIsTooLongEndsTheConnectionWhole(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	c.exists("/x", true)
	c.write(binary.BigEndian.AppendUint32(nil, 0x7fffffff))
	c.isCut()
	require.Eventually(t, func() bool { return !s.Sessions()[0].Connected }, 30*time.Second, time.Millisecond)
	require.Empty(t, s.Watches())

	p := RunProxyT(t, s.Addr())
	nc, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte{0xff, 0xff, 0xff, 0xff})
	require.NoError(t, err)
	(&client{t: t, nc: nc}).isCut()
}

func TestClientThatReadsNothingIsCutOff(t *testing.T) {
	s := RunT(t)
	c := dial(t, s)
	require.NoError(t, s.Create("/big", make([]byte, 1<<20-100)))
	request := zkwire.Int32(zkwire.Int32(zkwire.BeginFrame(nil), 1), int32(zkwire.OpGetData))
	request = zkwire.EndFrame(c.fields(request, "/big", false), 0)
	for range 90 {
		_, _ = c.nc.Write(request) // it may be cut off before the last
	}
	require.Eventually(t, func() bool { return !s.Sessions()[0].Connected }, time.Minute, time.Millisecond)
}

func TestStalledSessionHasItsWholeTimeoutAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Pipe())
		c := dial(t, s)
		require.True(t, s.StallPings(c.session))
		<-time.After(5 * time.Second)
		require.NoError(t, s.Restart())
		<-time.After(10 * time.Second)
		require.Len(t, s.Sessions(), 1)
		<-time.After(3 * time.Second)
		require.Empty(t, s.Sessions())
	})
}

func TestRestartThatFailsLeavesTheServerStopped(t *testing.T) {
	s := RunT(t)
	s.Stop()
	busy, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	require.Error(t, s.Restart())
	_, err = s.Dial(t.Context(), "", "")
	require.Error(t, err)
	require.NoError(t, busy.Close())
	require.NoError(t, s.Restart())
	dial(t, s)
}

func TestStartThatFailsTouchesNoDataAnyMore(t *testing.T) {
	dir := t.TempDir()
	first, err := Start(DataDir(dir), TickTime(50*time.Millisecond))
	require.NoError(t, err)
	dial(t, first)
	require.NoError(t, first.Close())
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()

	synctest.Test(t, func(t *testing.T) { // in which a server that goes on would save its data again and again
		_, err = Start(DataDir(dir), TickTime(50*time.Millisecond), Addr(busy.Addr().String()))
		require.ErrorContains(t, err, "address already in use")

		s := RunT(t, DataDir(dir), Pipe())
		require.NoError(t, s.Create("/precious", nil))
		<-time.After(3 * saveEvery)
		text, err := os.ReadFile(dir + "/zktest.json")
		require.NoError(t, err)
		require.Contains(t, string(text), "/precious")
	})
}

func TestListenerOutlivesAFailureToAccept(t *testing.T) {
	socket := &flakyListener{fail: 3, conns: make(chan net.Conn, 1)}
	served := make(chan net.Conn, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		acceptAll(socket, func(nc net.Conn) { served <- nc })
	}()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	socket.conns <- a
	<-served
	close(socket.conns)
	<-done
}

// A flakyListener fails some times before it accepts.
type flakyListener struct {
	net.Listener
	fail  int
	conns chan net.Conn
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if l.fail--; l.fail >= 0 {
		return nil, errors.New("too many open files")
	}
	nc, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return nc, nil
}

func TestFailNeverGoesBackInTime(t *testing.T) {
	s := RunT(t, Pipe())
	c := dial(t, s)
	require.NoError(t, s.Create("/a", nil))
	c.exists("/a", false)
	seen := c.seen
	s.On(Op(Exists).Times(1)).Fail(NoNode)
	require.NotZero(t, c.reopen(s))
	h, _ := c.answer(c.ask(zkwire.OpExists, "/a", false))
	require.Equal(t, zkwire.NoNode, h.Code)
	require.GreaterOrEqual(t, h.Zxid, seen)
}

func TestExpiredSessionBehindALaggingListenerReadsThePastAndWritesNothing(t *testing.T) {
	s := RunT(t, Pipe())
	follower, err := s.Listen("B")
	require.NoError(t, err)
	c := &client{t: t, timeout: 10 * time.Second}
	c.open(s, "", follower.Addr())
	require.NotZero(t, c.greet())
	c.create("/mine", zkwire.Ephemeral)
	follower.Lag(-1)

	require.True(t, s.Expire(c.session))

	require.Empty(t, s.Tree("/mine"))
	require.Equal(t, zkwire.OK, c.exists("/mine", false), "it does not know yet")
	c.ask(zkwire.OpSetData, "/zookeeper/quota", []byte("x"), -1)
	c.isCut() // a write makes it catch up
	node, err := s.Get("/zookeeper/quota")
	require.NoError(t, err)
	require.Zero(t, node.Stat.Version)
}

func TestListenersAddressMayBeAskedForDuringARestart(t *testing.T) {
	s := RunT(t)
	l, err := s.Listen("B")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			_ = l.Addr()
		}
	}()
	for range 3 {
		require.NoError(t, s.Restart())
	}
	<-done
}

func TestAdministratorsBytesAreCopied(t *testing.T) {
	s := RunT(t)
	data := []byte("before")
	require.NoError(t, s.Create("/a", data))
	copy(data, "after!")
	node, err := s.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "before", string(node.Data))
	require.ErrorIs(t, s.Create("/b/c//d", nil), BadArguments)
	require.Empty(t, s.Tree("/b"), "nothing half done")
}

func TestAdvanceSweepsAsOftenAsTimeWouldHave(t *testing.T) {
	s := RunT(t, FrozenClock())
	c := dial(t, s)
	for _, path := range []string{"/a", "/a/b", "/a/b/c"} {
		_, _ = c.do(zkwire.OpCreateContainer, path, []byte{}, []zkwire.ACL{{Perms: zkwire.PermAll, ID: zkwire.ID{Scheme: "world", Name: "anyone"}}}, zkwire.Container)
	}
	c.create("/a/b/c/d", zkwire.Persistent)
	require.NoError(t, s.Delete("/a/b/c/d"))
	s.Advance(time.Hour)
	require.Empty(t, s.Tree("/a"))
	require.Panics(t, func() { s.Advance(-time.Second) })
}
