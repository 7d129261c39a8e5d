package netfault_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
	"github.com/lockkeeper/lockkeeper/integration/netfault"
)

const (
	soon = 150 * time.Millisecond // long enough for loopback, when nothing is to come
	late = time.Minute            // for what must come
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPassCarriesBytesAndEndsBothWays(t *testing.T) {
	_, proxy, near, far := begin(t)

	say(t, near, "question")
	hear(t, far, "question")
	say(t, far, "answer")
	hear(t, near, "answer")

	require.NoError(t, near.CloseWrite())
	hearEnd(t, far)
	say(t, far, "last words")
	require.NoError(t, far.Close())
	hear(t, near, "last words")
	hearEnd(t, near)
	require.Eventually(t, func() bool { return proxy.Conns() == 0 }, late, time.Millisecond)
	require.Equal(t, 1, proxy.Accepted())
}

func TestLargeStreamsArriveWhole(t *testing.T) {
	_, _, near, far := begin(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, more than all buffers

	var writing sync.WaitGroup
	writing.Go(func() {
		_, _ = near.Write(sent)
		_ = near.CloseWrite()
	})
	got, err := io.ReadAll(far)
	writing.Wait()
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
}

func TestCutTellsBothEndsAndRefusesUntilPass(t *testing.T) {
	server, proxy, near, far := begin(t)

	require.NoError(t, proxy.Cut())

	hearReset(t, near)
	hearReset(t, far)
	_, err := net.Dial("tcp", proxy.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	addr := proxy.Addr()
	require.NoError(t, proxy.Pass())
	require.Equal(t, addr, proxy.Addr())
	near, far = connect(t, proxy, server)
	say(t, near, "again")
	hear(t, far, "again")
}

func TestResetTellsBothEndsAndStillAccepts(t *testing.T) {
	server, proxy, near, far := begin(t)

	require.NoError(t, proxy.Reset())

	hearReset(t, near)
	hearReset(t, far)
	near, far = connect(t, proxy, server)
	say(t, near, "again")
	hear(t, far, "again")
}

func TestBlackholeLosesTheEndOfStreamsToo(t *testing.T) {
	_, proxy, near, far := begin(t)

	require.NoError(t, proxy.Blackhole())
	say(t, far, "lost")
	hearNothing(t, near)
	require.NoError(t, near.Close())
	hearNothing(t, far)

	loses(t, proxy, netfault.ToClient)
	require.NoError(t, proxy.Pass())
	hearReset(t, far)
}

func TestConnectionThatLostNothingSurvivesBlackhole(t *testing.T) {
	_, proxy, near, far := begin(t)

	require.NoError(t, proxy.Blackhole())
	require.NoError(t, proxy.Pass())

	say(t, near, "still here")
	hear(t, far, "still here")
}

func TestBlackholeOneWayLetsTheOtherPass(t *testing.T) {
	server, proxy, near, far := begin(t)

	require.NoError(t, proxy.Blackhole(netfault.ToClient))
	say(t, near, "request")
	hear(t, far, "request")
	say(t, far, "reply, lost")
	hearNothing(t, near)

	loses(t, proxy, netfault.ToClient)
	require.NoError(t, proxy.Blackhole(netfault.ToServer))
	hearReset(t, near)
	near = dial(t, proxy)
	say(t, near, "request, lost")
	server.expectNoClient(t)
	hearNothing(t, near)
}

func TestConnectionAcceptedInBlackholeStaysMute(t *testing.T) {
	server := listen(t)
	proxy := netfault.New(t, server.addr())
	require.NoError(t, proxy.Blackhole())

	near := dial(t, proxy)
	say(t, near, "hello?")
	hearNothing(t, near)
	server.expectNoClient(t)

	loses(t, proxy, netfault.ToServer)
	require.NoError(t, proxy.Pass())
	hearReset(t, near)
	server.expectNoClient(t)
}

func TestStallDeliversEverythingLater(t *testing.T) {
	server, proxy, near, far := begin(t)

	require.NoError(t, proxy.Stall())
	say(t, near, "one ")
	say(t, near, "two")
	require.NoError(t, near.CloseWrite())
	say(t, far, "back")
	hearNothing(t, far)
	hearNothing(t, near)
	newcomer := dial(t, proxy)
	say(t, newcomer, "new")
	server.expectNoClient(t)

	require.NoError(t, proxy.Pass())
	hear(t, far, "one two")
	hearEnd(t, far)
	hear(t, near, "back")
	hear(t, server.next(t), "new")
}

func TestRefuseKeepsConnectionsAndAdmitsNone(t *testing.T) {
	server, proxy, near, far := begin(t)

	require.NoError(t, proxy.Refuse())

	_, err := net.Dial("tcp", proxy.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	say(t, near, "still here")
	hear(t, far, "still here")

	require.NoError(t, proxy.Pass())
	again, other := connect(t, proxy, server)
	say(t, again, "let in")
	hear(t, other, "let in")
	say(t, near, "both")
	hear(t, far, "both")
}

func TestJitterDelaysWithinItsBoundsAndKeepsOrder(t *testing.T) {
	_, proxy, near, far := begin(t)
	const least = 100 * time.Millisecond
	require.NoError(t, proxy.Jitter(least, 3*least))

	for _, ends := range [][]*net.TCPConn{{near, far}, {far, near}, {near, far}, {far, near}} {
		sent := time.Now()
		say(t, ends[0], "ping")
		hear(t, ends[1], "ping")
		require.GreaterOrEqual(t, time.Since(sent), least)
	}
	for _, word := range []string{"one", "two", "three"} {
		say(t, near, word)
	}
	hear(t, far, "onetwothree")
	require.Error(t, proxy.Jitter(-1, 1))
	require.Error(t, proxy.Jitter(2, 1))
}

// An address in the first bytes may come in pieces, and be longer afterwards.
func TestEditorChangesHowStreamsBegin(t *testing.T) {
	server := listen(t)
	proxy, err := netfault.ListenWith(server.addr(), netfault.Manner{Edit: func(head []byte) ([]byte, bool) {
		if len(head) < 4 {
			return nil, false
		}
		return append([]byte("longer"), head[4:]...), true
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	near := dial(t, proxy)
	far := server.next(t)

	say(t, near, "ab")
	hearNothing(t, far)
	say(t, near, "cdef")
	hear(t, far, "longeref")
	say(t, near, "abcd")
	hear(t, far, "abcd")
	say(t, far, "abcd")
	hear(t, near, "abcd")

	near = dial(t, proxy)
	far = server.next(t)
	say(t, near, "abc")
	require.NoError(t, near.CloseWrite())
	hear(t, far, "abc") // it ended before the editor was done
	hearEnd(t, far)
}

func TestPatientProxyWaitsForItsServer(t *testing.T) {
	port, err := loopback.Reserve()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Release()) })
	proxy, err := netfault.ListenWith(port.Addr(), netfault.Manner{Patience: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	near := dial(t, proxy)
	say(t, near, "are you there?")
	hearNothing(t, near)

	listener, err := net.Listen("tcp4", port.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	far, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = far.Close() })
	hear(t, far, "are you there?")
}

func TestJitterIsLatencyAndKeepsOrder(t *testing.T) {
	_, proxy, near, far := begin(t)
	const delay = 200 * time.Millisecond
	require.NoError(t, proxy.Jitter(delay, delay))

	began := time.Now()
	for range 1000 { // one after the other, they would take longer than hear waits
		say(t, near, "a")
	}
	say(t, near, "z")
	hear(t, far, strings.Repeat("a", 1000)+"z")
	require.GreaterOrEqual(t, time.Since(began), delay)
}

func TestHalfOpenTellsTheServerAlone(t *testing.T) {
	server, proxy, near, far := begin(t)

	require.NoError(t, proxy.HalfOpen())
	hearEnd(t, far)
	say(t, near, "hello?")
	hearNothing(t, near)
	mute := dial(t, proxy)
	hearNothing(t, mute)
	server.expectNoClient(t)

	require.NoError(t, proxy.Pass())
	hearReset(t, near)
	hearReset(t, mute)
}

func TestSwitchHoldsWhenItReturnsEvenAgainstBlockedWriters(t *testing.T) {
	_, proxy, near, far := begin(t)
	flooding := make(chan struct{})
	go func() {
		defer close(flooding)
		block := make([]byte, 1<<16)
		for {
			if _, err := near.Write(block); err != nil {
				return
			}
		}
	}()
	hear(t, far, "\x00")
	// The far end does not read on: soon the proxy's writer is blocked.
	require.Never(t, func() bool { return proxy.Conns() != 1 }, soon, 10*time.Millisecond)

	require.NoError(t, proxy.Stall())
	require.Eventually(t, func() bool { return !proxy.Writing(netfault.ToServer) }, late, time.Millisecond, "its write goes on")
	drained := drain(t, far)
	require.Positive(t, drained)
	require.Zero(t, drain(t, far), "nothing comes after the switch")

	require.NoError(t, proxy.Pass())
	hear(t, far, "\x00\x00\x00\x00")
	require.NoError(t, proxy.Cut())
	<-flooding
}

func TestServerThatIsDownShowsAsReset(t *testing.T) {
	server := listen(t)
	proxy := netfault.New(t, server.addr())
	require.NoError(t, server.listener.Close())
	conn, err := net.Dial("tcp", proxy.Addr())
	if err == nil { // else it was faster still
		defer conn.Close()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(late)))
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestClosedProxyRefusesEverything(t *testing.T) {
	server := listen(t)
	proxy, err := netfault.Listen(server.addr())
	require.NoError(t, err)
	near := dial(t, proxy)

	require.NoError(t, proxy.Close())
	hearReset(t, near)
	_, err = net.Dial("tcp", proxy.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Error(t, proxy.Pass())
	require.Error(t, proxy.Cut())
	require.Error(t, proxy.Reset())
	require.NoError(t, proxy.Close(), "closing again does nothing")
}

// server is the far end: a listener whose connections the test reads and writes itself.
type server struct{ listener *net.TCPListener }

func listen(t *testing.T) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return &server{listener.(*net.TCPListener)}
}

func (s *server) addr() string { return s.listener.Addr().String() }

func (s *server) next(t *testing.T) *net.TCPConn {
	t.Helper()
	require.NoError(t, s.listener.SetDeadline(time.Now().Add(late)))
	conn, err := s.listener.AcceptTCP()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *server) expectNoClient(t *testing.T) {
	t.Helper()
	require.NoError(t, s.listener.SetDeadline(time.Now().Add(soon)))
	_, err := s.listener.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// begin returns a server, a proxy in front of it, and both ends of a connection through it.
func begin(t *testing.T) (s *server, proxy *netfault.Proxy, near, far *net.TCPConn) {
	t.Helper()
	s = listen(t)
	proxy = netfault.New(t, s.addr())
	near, far = connect(t, proxy, s)
	return s, proxy, near, far
}

// connect returns both ends of a new connection that has carried bytes.
func connect(t *testing.T, proxy *netfault.Proxy, server *server) (near, far *net.TCPConn) {
	t.Helper()
	near, far = dial(t, proxy), server.next(t)
	say(t, near, "ping")
	hear(t, far, "ping")
	say(t, far, "pong")
	hear(t, near, "pong")
	return near, far
}

func dial(t *testing.T, proxy *netfault.Proxy) *net.TCPConn {
	t.Helper()
	before := proxy.Accepted()
	conn, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.Eventually(t, func() bool { return proxy.Accepted() > before }, late, time.Millisecond)
	return conn.(*net.TCPConn)
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

func hear(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(late)))
	got := make([]byte, len(text))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func hearNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// loses waits until the proxy has come to swallow what was sent.
func loses(t *testing.T, proxy *netfault.Proxy, to netfault.Direction) {
	t.Helper()
	require.Eventually(t, func() bool { return proxy.Holed(to) > 0 }, late, time.Millisecond)
}

func hearEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(late)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func hearReset(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(late)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// drain reads until nothing comes for a while.
func drain(t *testing.T, conn net.Conn) (total int64) {
	t.Helper()
	block := make([]byte, 1<<20)
	for {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
		n, err := conn.Read(block)
		total += int64(n)
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			return total
		}
	}
}
