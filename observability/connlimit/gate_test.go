package connlimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A site is a server behind a gate: /healthz is its probe, /wait answers when the
// test ends.
type site struct {
	*testing.T
	gate   *Gate
	addr   string
	client *http.Client // for TLS; nil: plain HTTP
	arrive chan struct{}
}

func newSite(t *testing.T, l Limits, secure bool) *site {
	t.Helper()
	l.Probes = []string{"/healthz"}
	s := &site{T: t, gate: New(l), arrive: make(chan struct{}, 1000)}
	over := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page") })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "alive") })
	mux.HandleFunc("/wait", func(http.ResponseWriter, *http.Request) {
		s.arrive <- struct{}{}
		<-over
	})
	server := httptest.NewUnstartedServer(s.gate.Handler(mux))
	server.Listener = s.gate.Listener(server.Listener)
	server.EnableHTTP2 = secure
	server.Config.ReadHeaderTimeout = time.Minute // no time passes here that a limit would need
	inner := &http.Server{}
	s.gate.Attach(inner)
	server.Config.ConnContext = inner.ConnContext
	server.Config.ConnState = inner.ConnState // httptest calls it as well
	if secure {
		server.StartTLS()
		s.client = server.Client()
	} else {
		server.Start()
	}
	s.addr = server.Listener.Addr().String()
	t.Cleanup(func() { close(over); server.Close() })
	return s
}

// A caller is a connection of a client.
type caller struct {
	*testing.T
	net.Conn
	reads *bufio.Reader
}

// dial connects from 127.0.0.from.
func (s *site) dial(from int) *caller {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(from))}}
	conn, err := d.DialContext(ctx, "tcp", s.addr)
	require.NoError(s, err)
	s.Cleanup(func() { _ = conn.Close() })
	require.NoError(s, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &caller{s.T, conn, bufio.NewReader(conn)}
}

func (c *caller) send(path string) {
	c.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
	require.NoError(c, err)
}

// reply is an answer that was read.
type reply struct {
	StatusCode int
	Header     http.Header
	Close      bool // the connection, after it
}

// get returns the answer, with what it says.
func (c *caller) get(path string) (reply, string) {
	c.Helper()
	c.send(path)
	answer, err := http.ReadResponse(c.reads, nil)
	require.NoError(c, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(c, err)
	require.NoError(c, answer.Body.Close())
	return reply{answer.StatusCode, answer.Header, answer.Close}, string(body)
}

func (c *caller) requireDropped(why string) {
	c.Helper()
	_, err := c.reads.ReadByte()
	require.Error(c, err, why)
	require.NotErrorIs(c, err, context.DeadlineExceeded, why)
	var timeout net.Error
	if netErr, ok := err.(net.Error); ok { //nolint:errorlint // as it comes from the socket
		timeout = netErr
	}
	require.False(c, timeout != nil && timeout.Timeout(), why)
}

// settles waits until so many connections are open, and so many of them idle.
func (s *site) settles(open, idle int) {
	s.Helper()
	require.Eventually(s, func() bool {
		s.gate.mu.Lock()
		defer s.gate.mu.Unlock()
		n := 0
		for c := range s.gate.open {
			if !c.busy {
				n++
			}
		}
		return len(s.gate.open) == open && n == idle
	}, time.Minute, time.Millisecond, "%d open, %d idle", open, idle)
}

// waits has a request that is not answered.
func (s *site) waits(from int) *caller {
	s.Helper()
	c := s.dial(from)
	c.send("/wait")
	select {
	case <-s.arrive:
	case <-time.After(time.Minute):
		require.Fail(s, "the request has not arrived")
	}
	return c
}

func TestIdleConnectionsMakeRoomTheLongestIdleFirst(t *testing.T) {
	s := newSite(t, Limits{Connections: 4, PerAddress: 100}, false)
	s.waits(2)
	var idle []*caller
	for i := range 3 {
		c := s.dial(3 + i)
		_, body := c.get("/")
		require.Equal(t, "page", body)
		s.settles(i+2, i+1)
		idle = append(idle, c)
	}
	_, again := idle[0].get("/") // it is the one that was idle for the shortest time now
	require.Equal(t, "page", again)
	s.settles(4, 3)

	// when
	answer, body := s.dial(9).get("/")

	// then
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "page", body)
	idle[1].requireDropped("it was idle for the longest time")
	for _, c := range []*caller{idle[0], idle[2]} {
		_, body := c.get("/")
		require.Equal(t, "page", body)
	}
}

func TestConnectionThatSendsNothingMakesRoomAsWell(t *testing.T) {
	s := newSite(t, Limits{Connections: 3, PerAddress: 100}, false)
	silent := []*caller{s.dial(2), s.dial(2), s.dial(2)}
	s.settles(3, 3)

	// when
	_, body := s.dial(3).get("/")

	// then
	require.Equal(t, "page", body)
	silent[0].requireDropped("it has sent nothing for the longest time")
}

func TestOneAddressDoesNotTakeTheConnectionsOfTheOthers(t *testing.T) {
	s := newSite(t, Limits{Connections: 100, PerAddress: 3}, false)
	for range 3 {
		s.waits(2)
	}

	// when
	answer, body := s.dial(2).get("/")
	other, page := s.dial(3).get("/")

	// then
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	require.Equal(t, "5", answer.Header.Get("Retry-After"))
	require.Equal(t, "application/problem+json", answer.Header.Get("Content-Type"))
	require.JSONEq(t, `{"type":"about:blank","title":"Too many connections","status":429,"detail":"3 connections from 127.0.0.2 are in use","next":"close some, or wait for their answers"}`, body)
	require.Equal(t, http.StatusOK, other.StatusCode)
	require.Equal(t, "page", page)
}

func TestAProxyIsManyClients(t *testing.T) {
	s := newSite(t, Limits{Connections: 6, PerAddress: 3, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}, false)
	for range 5 {
		s.waits(2)
	}
	_, body := s.dial(2).get("/")
	require.Equal(t, "page", body)
}

func TestProbesAreAnsweredWhenAllConnectionsAreInUse(t *testing.T) {
	s := newSite(t, Limits{Connections: 4, PerAddress: 100, Reserve: 8}, false)
	for i := range 4 {
		s.waits(10 + i)
	}
	for range 3 { // each time on a connection of its own
		answer, body := s.dial(3).get("/healthz")
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, "alive", body)
		require.True(t, answer.Close, "it has had its answer")
	}
	answer, body := s.dial(3).get("/")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, body, "all 4 connections are in use")
	require.True(t, answer.Close)
}

func TestConnectionsThatSendNothingDoNotFillTheReserve(t *testing.T) {
	s := newSite(t, Limits{Connections: 2, PerAddress: 100, Reserve: 8}, false)
	s.waits(10)
	s.waits(11)
	var first *caller
	for i := range 40 { // one address for half a request each, many for silence
		half := s.dial(12)
		_, err := half.Write([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"))
		require.NoError(t, err)
		if silent := s.dial(20 + i); first == nil {
			first = silent
		}
	}

	// when
	answer, body := s.dial(3).get("/healthz")

	// then
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "alive", body)
	first.requireDropped("others have come after it")
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	require.LessOrEqual(t, len(s.gate.reserve), 8)
}

func TestConnectionsThatHaveEndedAreNotCounted(t *testing.T) {
	s := newSite(t, Limits{Connections: 3, PerAddress: 2, Reserve: 4}, false)
	for i := range 50 {
		c := s.dial(2 + i%3)
		_, body := c.get("/")
		require.Equal(t, "page", body)
		require.NoError(t, c.Close())
		s.settles(0, 0)
	}
	require.Empty(t, s.gate.byAddress)
	require.Empty(t, s.gate.reserve)
}

func TestGateIsBelowTLSAndHTTP2(t *testing.T) {
	s := newSite(t, Limits{Connections: 2, PerAddress: 100, Reserve: 8}, true)
	get := func(client *http.Client, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.addr+path, nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, 2, answer.ProtoMajor)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	another := func() *http.Client {
		transport := s.client.Transport.(*http.Transport).Clone()
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: 30 * time.Second}
	}
	for i := range 5 { // idle ones make room
		status, body := get(another(), "/")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "page", body)
		s.settles(min(i+1, 2), min(i+1, 2))
	}
	for range 2 {
		client := another()
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.addr+"/wait", nil)
			if err != nil {
				return
			}
			if answer, err := client.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		}()
		<-s.arrive
	}
	status, body := get(another(), "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "alive", body)
	status, body = get(another(), "/")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "all 2 connections are in use")
}

func TestOneNetworkOfIPv6IsOneClient(t *testing.T) {
	require.Equal(t, Network(Address("[2001:db8::1]:80")), Network(Address("[2001:db8::ffff:2%eth0]:99")))
	require.NotEqual(t, Network(Address("[2001:db8::1]:80")), Network(Address("[2001:db8:0:1::1]:80")))
	require.Equal(t, netip.MustParseAddr("10.0.0.1"), Network(Address("[::ffff:10.0.0.1]:80")))
	require.False(t, Network(Address(strings.Repeat("x", 9))).IsValid())
}
