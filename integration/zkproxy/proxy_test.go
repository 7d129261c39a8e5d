package zkproxy_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestPartitionAndHeal(t *testing.T) {
	s := newStage(t)
	a, _ := s.named("A")
	b, _ := s.named("B")
	_, _, changes, err := a.ExistsW(s.path("b"))
	require.NoError(t, err)

	s.Partition("A")
	kept := s.later(a, "a")
	require.NoError(t, s.create(b, "b"))
	s.requireNode("a", false)
	require.Empty(t, changes)

	s.Heal("A")
	require.NoError(t, result(t, kept))
	require.Equal(t, zk.EventNodeCreated, result(t, changes).Type)
	s.requireNode("a", true)
}

func TestPartitionOfAll(t *testing.T) {
	s := newStage(t)
	c, _ := s.client()
	s.Partition()
	kept := s.later(c, "a")
	require.Never(t, func() bool { return s.has("a") || len(kept) > 0 }, 100*time.Millisecond, 10*time.Millisecond)
	s.Heal()
	require.NoError(t, result(t, kept))
}

func TestServerDoesNotHearOfAClientThatLeavesDuringAPartition(t *testing.T) {
	s := newStage(t)
	a, _ := s.named("A")
	_, err := a.Create(s.path("a"), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	s.Partition("A")
	a.Close() // gives up after a second
	s.requireNode("a", true)

	s.Heal()
	require.Eventually(t, func() bool { return !s.has("a") }, patience, time.Millisecond,
		"the request to close the session should have arrived")
}

func TestServerHearsOfAClientThatDies(t *testing.T) {
	s := newStage(t)
	var conn net.Conn
	c, events := open(t, s.Addr(), func(network, address string, timeout time.Duration) (net.Conn, error) {
		if conn != nil {
			return nil, net.ErrClosed // it does not come back
		}
		var err error
		conn, err = net.DialTimeout(network, address, timeout)
		return conn, err
	})
	// A watch is there as long as its connection is.
	_, _, _, err := c.ExistsW(s.path("a"))
	require.NoError(t, err)
	server := shared.Server(t)
	watched := func() bool {
		watches, err := server.Watches(t.Context())
		require.NoError(t, err)
		return watches.Total > 0
	}
	require.True(t, watched())
	require.NoError(t, conn.Close())
	await(t, events, zk.StateDisconnected)
	require.Eventually(t, func() bool { return !watched() }, session/3, 10*time.Millisecond)
}

func TestDisconnectedSessionComesBack(t *testing.T) {
	s := newStage(t)
	c, events := s.client()
	before := c.SessionID()
	require.False(t, s.Disconnect(before+1))
	require.True(t, s.Disconnect(before))
	await(t, events, zk.StateDisconnected)
	await(t, events, zk.StateHasSession)
	require.Equal(t, before, c.SessionID())
}

func TestConnectIsHeldOrItsReplyDropped(t *testing.T) {
	s := newStage(t)
	c, events := s.client()
	before := c.SessionID()
	held := s.On(zktest.Op(zktest.Connect).Session(before).Nth(1)).Hold()
	dropped := s.On(zktest.Op(zktest.Connect).Session(before).Nth(2)).DropReply()
	require.True(t, s.Disconnect(before))
	reached(t, held)
	require.True(t, hasNoSession(events))
	s.Disconnect(before)
	held.Release()
	await(t, events, zk.StateHasSession)
	require.True(t, s.Disconnect(before))
	reached(t, dropped)
	await(t, events, zk.StateHasSession)
	require.Equal(t, before, c.SessionID())
}

func hasNoSession(events <-chan zk.Event) bool {
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return false
			}
		default:
			return true
		}
	}
}

func TestRuleThatNeverFiresFailsItsTest(t *testing.T) {
	observer := &observer{T: t}
	proxy := zktest.RunProxyT(observer, shared.Server(t).Addr())
	proxy.On(zktest.Op(zktest.Create).Path("/nobody")).DropReply()
	proxy.On(zktest.Op(zktest.Delete))
	proxy.Partition("nobody")
	observer.finish()

	require.Len(t, observer.failures, 3)
	require.Regexp(t, `never happened: DropReply of create /nobody at proxy_test.go:\d+ never fired; 0 matched`, observer.failures[0])
	require.Regexp(t, `never happened: On\(delete\) at proxy_test.go:\d+ has no action`, observer.failures[1])
	require.Regexp(t, `never happened: Partition\("nobody"\) at proxy_test.go:\d+: no connection had the name`, observer.failures[2])
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

func (o *observer) finish() {
	for _, f := range o.cleanups {
		f()
	}
}

func TestTraceShowsTheConversation(t *testing.T) {
	s := newStage(t)
	c, _ := s.named("A")
	s.On(zktest.Op(zktest.Create).Path(s.path("b"))).DropReply()
	require.NoError(t, s.create(c, "a"))
	require.Error(t, s.create(c, "b"))

	var lines string
	for _, e := range s.Trace() {
		lines += regexp.MustCompile(`^\S+ `).ReplaceAllString(e.String(), "") + "\n"
	}
	id := fmt.Sprintf("%#x", uint64(c.SessionID()))
	require.Regexp(t, `(?s)^A 0x0 → connect, timeout 15s
A `+id+` ← connected to session `+id+`, timeout 15s
.*A `+id+` → #\d+ create `+s.path("a")+`
A `+id+` ← #\d+ create ok, zxid 0x[0-9a-f]+, `+s.path("a")+`
.*A `+id+` ✂ #\d+ create ok, zxid 0x[0-9a-f]+, `+s.path("b")+`: DropReply of create `+s.path("b")+` at proxy_test.go:\d+
`, lines)
}

func TestManyClientsLoseNothing(t *testing.T) {
	s := newStage(t)
	const clients, each = 5, 40
	s.On(zktest.Op(zktest.Create)).Delay(time.Millisecond)
	s.On(zktest.Any()).DelayReply(100 * time.Microsecond)
	var running sync.WaitGroup
	for i := range clients {
		c, _ := s.client()
		running.Go(func() {
			for n := range each {
				if err := s.create(c, fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Errorf("create: %v", err)
				}
			}
		})
	}
	running.Wait()
	children, _, err := s.admin.Children(s.root)
	require.NoError(t, err)
	require.Len(t, children, clients*each)
}

func TestFourLetterWordsPass(t *testing.T) {
	s := newStage(t)
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("ruok"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "imok", string(answer))
}

func TestConnectionsEndWithoutAServer(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	proxy := zktest.RunProxyT(t, gone.Addr().String())
	conn, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(make([]byte, 48))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestCloseCutsAndLeavesNothing(t *testing.T) {
	s := newStage(t)
	c, events := s.client()
	rule := s.On(zktest.Any().Path(s.path("a"))).Hold()
	held := s.later(c, "a")
	reached(t, rule)
	began := time.Now()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), session/3, "it should not wait for either end")
	require.ErrorIs(t, result(t, held), zk.ErrConnectionClosed)
	await(t, events, zk.StateDisconnected)
	_, err := s.Dialer("A")(t.Context(), "", "")
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = zktest.NewProxy("no port")
	require.ErrorContains(t, err, "the target of a proxy is host:port")
}
