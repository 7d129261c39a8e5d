package netfault

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
)

// Direction is one of the two ways that bytes take.
type Direction int

// The directions of a link.
const (
	ToServer Direction = iota
	ToClient
)

// Proxy is one link between clients and a server. Its methods may be called from any goroutine; when one returns, the
// new state holds.
type Proxy struct {
	port   *loopback.Port
	target string
	manner Manner

	switching sync.Mutex // one change of state at a time

	mu       sync.Mutex
	state    state
	changed  chan struct{} // closed and replaced when state changes
	listener net.Listener  // nil while connections are refused
	links    map[*link]struct{}
	accepted int
	closed   bool
	running  sync.WaitGroup
}

// state is what the proxy does to bytes and connections at a moment.
type state struct {
	ways   [2]way
	delay  time.Duration
	jitter time.Duration
	orphan bool // the server's side of every connection is gone
}

type way int

const (
	open    way = iota
	swallow     // read and forget
	hold        // read and keep for later
)

// New starts a proxy in front of the server at target, in the state Pass, and closes it at the end of the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Listen(target)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return p
}

// Listen starts a proxy in front of the server at target, in the state Pass. It ends with Close.
func Listen(target string) (*Proxy, error) { return ListenWith(target, Manner{}) }

// Manner is what a proxy does beside passing on. The zero value is nothing.
type Manner struct {
	// Edit changes how streams begin, such as an address that the client announces there. It is called with all that a
	// client has sent so far, again and again until it is done, and returns what the server is to get instead.
	Edit func(head []byte) (edited []byte, done bool)
	// Patience is how long a server that refuses the connection is asked again. The client has been let in by then: one
	// that would try again when it is refused may take the reset that it gets instead for something worse.
	Patience time.Duration
}

// ListenWith is Listen with a Manner.
func ListenWith(target string, manner Manner) (*Proxy, error) {
	port, err := loopback.Reserve()
	if err != nil {
		return nil, fmt.Errorf("netfault: %w", err)
	}
	p := &Proxy{port: port, target: target, manner: manner, changed: make(chan struct{}), links: map[*link]struct{}{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listen(); err != nil {
		return nil, errors.Join(err, port.Release())
	}
	return p, nil
}

// Addr returns the address for clients, "127.0.0.1:port". It never changes.
func (p *Proxy) Addr() string { return p.port.Addr() }

// Pass lets everything through, and delivers what Stall has held back. Connections on which bytes were lost are reset:
// a stream with a hole in it is of no use.
func (p *Proxy) Pass() error { return p.become(state{}) }

// Cut resets all connections and refuses new ones.
func (p *Proxy) Cut() error {
	p.switching.Lock()
	defer p.switching.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(); err != nil {
		return err
	}
	err := p.refuse()
	p.set(state{})
	p.reset(func(*link) bool { return true })
	return err
}

// Reset resets the connections that exist, and leaves the state as it is.
func (p *Proxy) Reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(); err != nil {
		return err
	}
	p.reset(func(*link) bool { return true })
	return nil
}

// Blackhole keeps and accepts connections and swallows what is sent on them, the end of a stream included; both ways
// when none is named. Connections accepted meanwhile stay mute for as long as they live.
func (p *Proxy) Blackhole(ways ...Direction) error {
	if len(ways) == 0 {
		ways = []Direction{ToServer, ToClient}
	}
	var s state
	for _, w := range ways {
		s.ways[w] = swallow
	}
	return p.become(s)
}

// Stall keeps and accepts connections and holds back what is sent on them, to be delivered by Pass or Jitter. Once the
// buffers are full the sender blocks.
func (p *Proxy) Stall() error { return p.become(state{ways: [2]way{hold, hold}}) }

// Jitter lets everything through, both ways and in order, a time after it was sent that is drawn between least and
// most, anew for what is read at once. The bandwidth stays the same.
func (p *Proxy) Jitter(least, most time.Duration) error {
	if least < 0 || most < least {
		return fmt.Errorf("netfault: jitter from %s to %s: neither may be negative, and the first is the smaller",
			least, most)
	}
	return p.become(state{delay: least, jitter: most - least})
}

// Refuse refuses new connections and leaves those that exist, and what is done to them, as they are.
func (p *Proxy) Refuse() error {
	p.switching.Lock()
	defer p.switching.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(); err != nil {
		return err
	}
	return p.refuse()
}

// HalfOpen closes the server's side of all connections, while their clients believe that they are connected and hear
// nothing. New connections are accepted and stay mute, unknown to the server.
func (p *Proxy) HalfOpen() error {
	return p.become(state{ways: [2]way{swallow, swallow}, orphan: true})
}

// Conns returns the number of connections that clients have to the proxy.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted returns how many connections the proxy has accepted in its life.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close resets all connections, gives the address back, and returns when nothing of the proxy is left. It may
// be called again.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	err := p.refuse()
	p.reset(func(*link) bool { return true })
	p.mu.Unlock()
	p.running.Wait()
	if err = errors.Join(err, p.port.Release()); err != nil {
		return fmt.Errorf("netfault: close: %w", err)
	}
	return nil
}

// become switches to a state in which connections are accepted.
func (p *Proxy) become(next state) error {
	p.switching.Lock()
	defer p.switching.Unlock()
	links, err := p.enter(next)
	for _, l := range links {
		l.settle()
	}
	return err
}

// enter returns the links that may still be writing what the state of before allowed.
func (p *Proxy) enter(next state) ([]*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.check(); err != nil {
		return nil, err
	}
	// A link that has lost bytes one way must not come back to life there.
	p.reset(func(l *link) bool {
		for w := range next.ways {
			if l.holed[w] && next.ways[w] != swallow {
				return true
			}
		}
		return false
	})
	p.set(next)
	if next.orphan {
		for l := range p.links {
			l.orphan()
		}
	}
	return slices.Collect(maps.Keys(p.links)), p.listen()
}

func (p *Proxy) check() error {
	if p.closed {
		return errors.New("netfault: the proxy is closed")
	}
	return nil
}

func (p *Proxy) set(next state) {
	p.state = next
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) reset(which func(*link) bool) {
	for l := range p.links {
		if which(l) {
			l.reset()
		}
	}
}

func (p *Proxy) listen() error {
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp4", p.Addr())
	if err != nil {
		return fmt.Errorf("netfault: %w", err)
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) refuse() error {
	if p.listener == nil {
		return nil
	}
	err := p.listener.Close()
	p.listener = nil
	return err
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		p.serve(listener, conn)
	}
}

func (p *Proxy) serve(listener net.Listener, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener { // accepted just before it was closed
		abort(conn)
		return
	}
	p.accepted++
	l := newLink(p, conn)
	p.links[l] = struct{}{}
	p.running.Go(func() {
		l.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}
