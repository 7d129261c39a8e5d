package zktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// A Proxy stands in front of a real ZooKeeper server and offers the faults of
// Server: the same rules, partitions and trace. So a scenario can be played on
// the real server too.
//
//	proxy := zktest.RunProxyT(t, "127.0.0.1:2181")
//	client := connect(proxy.Addr())
//	proxy.On(zktest.Op(zktest.Create).Path("/jobs/*").Nth(1)).DropReply()
//
// It reads plain connections only, not TLS. Four-letter words pass, and no rule
// sees them. A Proxy keeps what one side does not read, without limit.
type Proxy struct {
	target   string
	faults   *faults
	listener net.Listener
	ctx      context.Context // ends with the proxy
	stop     context.CancelFunc

	mu      sync.Mutex
	links   map[*link]struct{}
	closed  bool
	running sync.WaitGroup
}

// NewProxy starts a proxy in front of the server at target, "host:port", on a
// free port of 127.0.0.1. The server need not be there yet: a client whose
// connection cannot be passed on sees it end. The proxy ends with Close.
func NewProxy(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("zktest: the target of a proxy is host:port: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("zktest: listen for a proxy: %w", err)
	}
	p := &Proxy{target: target, faults: newFaults(), listener: listener, links: map[*link]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// RunProxyT is NewProxy for a test: the proxy is closed at the test's end, and
// what Unfired tells by then fails the test.
func RunProxyT(t T, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		for _, fault := range p.Unfired() {
			t.Errorf("zktest: never happened: %s", fault)
		}
		if err := p.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return p
}

// Addr returns the address for clients, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Dialer returns a function that connects a client of this process to the
// proxy. The connection has a name: for Partition, for From and for the trace.
// Network and address are ignored. While a partition concerns the name, it
// waits for its end, as long as its context lives.
func (p *Proxy) Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(p.ctx, func() { cancel(net.ErrClosed) })()
		if err := p.faults.reachable(ctx, name); err != nil {
			return nil, fmt.Errorf("zktest: dial as %q: %w", name, err)
		}
		client, inside := net.Pipe()
		if !p.serve(inside, name) {
			return nil, fmt.Errorf("zktest: dial as %q: %w", name, errors.Join(net.ErrClosed, client.Close()))
		}
		return client, nil
	}
}

// On begins a rule: what is to go wrong, for the requests or events that match.
// See Fault for what can.
func (p *Proxy) On(m Match) *Fault { return p.faults.on(m) }

// Partition cuts the network between the server and the connections of these
// dialers; all connections without a name. They stay, and what is sent over
// them is kept, as TCP keeps it, until Heal.
func (p *Proxy) Partition(names ...string) { p.faults.partition(names...) }

// Heal ends the partitions of these names; all without a name.
func (p *Proxy) Heal(names ...string) { p.faults.heal(names...) }

// Disconnect cuts the connection of a session, which may come back. It reports
// whether there was one.
func (p *Proxy) Disconnect(session int64) bool { return p.faults.disconnect(session) }

// Trace returns the last frames, oldest first, with what rules did to them.
func (p *Proxy) Trace() []Exchange { return p.faults.exchanges() }

// Unfired describes the faults that were asked for and have not happened: rules
// that never acted, a Match without an action, partitions of names that no
// connection had.
func (p *Proxy) Unfired() []string { return p.faults.unfired() }

// Close cuts all connections and returns when nothing of the proxy is left. It
// may be called again.
func (p *Proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.stop()
	for l := range p.links {
		l.abort()
	}
	p.mu.Unlock()
	var err error
	if first {
		err = p.listener.Close()
	}
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("zktest: close the proxy: %w", err)
	}
	return nil
}

func (p *Proxy) accept() {
	acceptAll(p.listener, func(conn net.Conn) { p.serve(conn) })
}

// serve begins a connection, unless the proxy is closed.
func (p *Proxy) serve(client net.Conn, names ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close()
		return false
	}
	l := &link{proxy: p, names: names, client: newOutbox(client, 0)}
	p.links[l] = struct{}{}
	p.running.Go(func() {
		l.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
	return true
}
