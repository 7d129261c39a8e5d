package deadlines

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// proxy is the only way of one client to one server. It passes frames on, notes when requests that take the leader
// were sent and answered, can hold one such answer back, and refuses new connections once it is refusing.
type proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	refusing bool
	closed   bool
	conns    map[net.Conn]struct{}
	held     time.Time // answers that take the leader wait until then
	answered []exchange
}

// exchange is one request that takes the leader, as the proxy saw it.
type exchange struct{ sent, answered time.Time }

func newProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, listener: listener, conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// refuse lets no new connection through. Those that exist go on.
func (p *proxy) refuse(refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refusing
}

// hold holds answers to requests that take the leader back until an instant, and all that comes after them.
func (p *proxy) hold(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = until
}

// last returns the exchange that was sent last of those answered before an instant; the zero value: none.
func (p *proxy) last(before time.Time) (last exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.answered {
		if e.answered.Before(before) && e.sent.After(last.sent) {
			last = e
		}
	}
	return last
}

// close ends all connections and returns when nothing of the proxy is left.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// keep registers a connection, unless the proxy is closed, or refusing.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refusing {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) serve(client net.Conn) {
	defer p.drop(client)
	if !p.keep(client) {
		return
	}
	server, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		return
	}
	defer p.drop(server)
	if !p.keep(server) {
		return
	}
	c := &connection{proxy: p, sent: map[int32]time.Time{}}
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		_ = c.copy(client, server, c.answer)
	})
	_ = c.copy(server, client, c.request)
	_ = server.Close()
	back.Wait()
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// connection is one connection through the proxy.
type connection struct {
	proxy *proxy
	mu    sync.Mutex
	sent  map[int32]time.Time // requests that take the leader, without an answer yet
}

const maxFrame = 16 << 20

// copy passes frames on. seen is called with each one but the first, which is the greeting, before it is
// passed on.
func (c *connection) copy(to io.Writer, from io.Reader, seen func(body []byte)) error {
	head := make([]byte, 4)
	for greeting := true; ; greeting = false {
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head)
		if n > maxFrame {
			return errors.New("this is not ZooKeeper's protocol")
		}
		frame := append(head[:4:4], make([]byte, n)...)
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return err
		}
		if !greeting {
			seen(frame[4:])
		}
		if _, err := to.Write(frame); err != nil {
			return err
		}
	}
}

// request notes what takes the leader: create, delete, setData, sync, multi.
func (c *connection) request(body []byte) {
	if len(body) < 8 {
		return
	}
	xid := int32(binary.BigEndian.Uint32(body))
	switch binary.BigEndian.Uint32(body[4:]) {
	case 1, 2, 5, 9, 14:
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if xid > 0 {
		c.sent[xid] = time.Now()
	}
}

func (c *connection) answer(body []byte) {
	if len(body) < 4 {
		return
	}
	xid := int32(binary.BigEndian.Uint32(body))
	c.mu.Lock()
	sent, known := c.sent[xid]
	delete(c.sent, xid)
	c.mu.Unlock()
	if !known {
		return
	}
	p := c.proxy
	p.mu.Lock()
	until := p.held
	p.mu.Unlock()
	if wait := time.Until(until); wait > 0 {
		<-time.After(wait)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = append(p.answered, exchange{sent: sent, answered: time.Now()})
}
