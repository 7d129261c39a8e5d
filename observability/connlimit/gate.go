package connlimit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits say how many connections a server has at a time. A zero field stands for
// its default.
type Limits struct {
	// Connections are those of all clients. Defaults to 512.
	Connections int

	// PerAddress are those of one address; an IPv6 network of 64 bits counts as one.
	// Defaults to 128.
	PerAddress int

	// Reserve are those beyond these limits, which get one answer each. Defaults to
	// 32; a quarter of them for one address.
	Reserve int

	// Probes are the paths that are answered also in the reserve.
	Probes []string

	// Proxies are addresses to which PerAddress does not apply: many clients come
	// from there.
	Proxies []netip.Prefix
}

// A Gate counts the connections of one server, and drops those that are idle when
// there are too many. Make one with New.
type Gate struct {
	limits Limits

	mu        sync.Mutex
	open      map[*conn]bool
	byAddress map[netip.Addr]int // of open
	reserve   []*conn            // the oldest first
}

// New returns a gate. Negative limits are taken as unset.
func New(l Limits) *Gate {
	l.Connections = cmp.Or(max(l.Connections, 0), 512)
	l.PerAddress = cmp.Or(max(l.PerAddress, 0), 128)
	l.Reserve = cmp.Or(max(l.Reserve, 0), 32)
	return &Gate{limits: l, open: map[*conn]bool{}, byAddress: map[netip.Addr]int{}}
}

// Listener counts what another one accepts. TLS goes on top of it.
func (g *Gate) Listener(l net.Listener) net.Listener { return &listener{l, g} }

// Attach has a server tell the gate which connections are idle. It has to be called
// before the server serves, and takes its ConnState and ConnContext.
func (g *Gate) Attach(s *http.Server) {
	s.ConnState = func(is net.Conn, state http.ConnState) {
		c := ours(is)
		if c == nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		c.busy, c.since = state == http.StateActive, time.Now()
	}
	s.ConnContext = func(ctx context.Context, is net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, ours(is))
	}
}

// Handler answers those in the reserve, and has next answer all others.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c == nil || c.excess == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		if slices.Contains(g.limits.Probes, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		g.refuse(w, c)
	})
}

// refuse says that there are too many connections, as RFC 9457 has it.
func (g *Gate) refuse(w http.ResponseWriter, c *conn) {
	detail, next := fmt.Sprintf("all %d connections are in use", g.limits.Connections), "try again in a moment"
	if c.excess == http.StatusTooManyRequests {
		detail, next = fmt.Sprintf("%d connections from %s are in use", g.limits.PerAddress, c.from),
			"close some, or wait for their answers"
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Retry-After", "5")
	w.WriteHeader(c.excess)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may have gone
		"type": "about:blank", "title": "Too many connections", "status": c.excess, "detail": detail, "next": next,
	})
}

// admit makes room for a connection, or puts it into the reserve.
func (g *Gate) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, gate: g, since: time.Now()}
	peer := Address(raw.RemoteAddr().String())
	c.from = Network(peer)
	var drop *conn
	g.mu.Lock()
	switch {
	case !g.proxied(peer) && g.byAddress[c.from] >= g.limits.PerAddress:
		if drop = g.longestIdle(func(other *conn) bool { return other.from == c.from }); drop == nil {
			c.excess = http.StatusTooManyRequests
		}
	case len(g.open) >= g.limits.Connections:
		if drop = g.longestIdle(func(*conn) bool { return true }); drop == nil {
			c.excess = http.StatusServiceUnavailable
		}
	}
	if c.excess != 0 {
		drop = g.oldestInReserve(c.from)
		g.reserve = append(g.reserve, c)
	} else {
		g.open[c] = true
		g.byAddress[c.from]++
	}
	if drop != nil {
		g.forget(drop)
	}
	g.mu.Unlock()
	if drop != nil {
		_ = drop.Conn.Close() // the server meets that when it reads
	}
	return c
}

func (g *Gate) proxied(peer netip.Addr) bool {
	return slices.ContainsFunc(g.limits.Proxies, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// longestIdle returns the connection whose last answer, or whose beginning if it has
// sent no request yet, is longest ago; nil if all have a request.
func (g *Gate) longestIdle(of func(*conn) bool) (idle *conn) {
	for c := range g.open {
		if !c.busy && of(c) && (idle == nil || c.since.Before(idle.since)) {
			idle = c
		}
	}
	return idle
}

// oldestInReserve returns who has to leave the reserve for another one from an
// address; nil while there is room.
func (g *Gate) oldestInReserve(from netip.Addr) *conn {
	var same []*conn
	for _, c := range g.reserve {
		if c.from == from {
			same = append(same, c)
		}
	}
	switch {
	case len(same) >= max(1, g.limits.Reserve/4):
		return same[0]
	case len(g.reserve) >= g.limits.Reserve:
		return g.reserve[0]
	}
	return nil
}

// forget counts a connection no more.
func (g *Gate) forget(c *conn) {
	if i := slices.Index(g.reserve, c); i >= 0 {
		g.reserve = slices.Delete(g.reserve, i, i+1)
	}
	if !g.open[c] {
		return
	}
	delete(g.open, c)
	if g.byAddress[c.from]--; g.byAddress[c.from] == 0 {
		delete(g.byAddress, c.from)
	}
}

type connKey struct{}

// A conn is a connection that is counted.
type conn struct {
	net.Conn
	gate   *Gate
	from   netip.Addr
	excess int // the status of its answer when it is in the reserve; 0: it is not

	busy  bool      // it has a request, under the lock of the gate
	since time.Time // when that has changed
}

// Close gives its place back.
func (c *conn) Close() error {
	c.gate.mu.Lock()
	c.gate.forget(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets a client read the answer to a request whose body the handler
// did not read.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ours finds the connection below TLS; nil for one of another listener.
func ours(is net.Conn) *conn {
	if over, ok := is.(interface{ NetConn() net.Conn }); ok {
		is = over.NetConn()
	}
	c, _ := is.(*conn)
	return c
}

type listener struct {
	net.Listener
	gate *Gate
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.gate.admit(raw), nil
}

// Address is the IP address of host:port, and the zero one of anything else.
func Address(hostPort string) netip.Addr {
	from, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// Network is what counts as one client: an IPv4 address, or the first 64 bits of an
// IPv6 one, of which one machine may have all.
func Network(of netip.Addr) netip.Addr {
	if !of.Is6() {
		return of
	}
	prefix, err := of.Prefix(64)
	if err != nil {
		return of
	}
	return prefix.Addr()
}
