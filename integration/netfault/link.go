package netfault

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// link is one connection of a client and, as soon as bytes may flow to it, one to the server. Its fields are
// guarded by the proxy's mutex.
type link struct {
	proxy  *Proxy
	client net.Conn

	ctx    context.Context
	cancel context.CancelFunc

	server   net.Conn // nil before the dial and once orphaned
	orphaned bool
	holed    [2]bool // bytes were lost

	// gates are held, each for its direction, by the writer. They are taken before the proxy's mutex.
	gates [2]sync.Mutex
}

func newLink(p *Proxy, client net.Conn) *link {
	l := &link{proxy: p, client: client}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.orphaned = p.state.orphan
	l.holed = [2]bool{l.orphaned, l.orphaned}
	return l
}

// reset ends the link; both ends notice at once.
func (l *link) reset() {
	l.cancel()
	abort(l.client)
	if l.server != nil {
		abort(l.server)
	}
}

// orphan closes the server's side and leaves the client in the belief that nothing happened.
func (l *link) orphan() {
	l.orphaned = true
	l.holed = [2]bool{true, true}
	if l.server != nil {
		_ = l.server.Close()
		l.server = nil
	}
}

// settle returns when no write is under way that the proxy's state of before allowed. A write that is blocked
// is broken off; its writer keeps the rest and decides again.
func (l *link) settle() {
	for to := range l.gates {
		dst := l.end(Direction(to))
		if dst == nil {
			continue
		}
		_ = dst.SetWriteDeadline(time.Unix(1, 0))
		l.gates[to].Lock()
		_ = dst.SetWriteDeadline(time.Time{})
		l.gates[to].Unlock()
	}
}

func (l *link) end(to Direction) net.Conn {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if to == ToClient {
		return l.client
	}
	return l.server
}

// close ends a link whose ends have both said that they are done, or which has been reset.
func (l *link) close() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.cancel()
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) run() {
	defer l.close()
	var running sync.WaitGroup
	defer running.Wait()

	toServer := make(chan chunk, maxChunks)
	running.Go(func() { l.read(l.client, ToServer, toServer) })
	server, err := l.dial()
	if err != nil {
		l.proxy.mu.Lock()
		defer l.proxy.mu.Unlock()
		if l.proxy.state.ways[ToClient] == open {
			l.reset()
			return
		}
		// The client must not notice now; the next state that lets it hear ends the link.
		l.holed = [2]bool{true, true}
		running.Go(func() { <-l.ctx.Done() })
		return
	}
	toClient := make(chan chunk, maxChunks)
	running.Go(func() { l.read(server, ToClient, toClient) })
	running.Go(func() { l.write(server, ToServer, toServer) })
	running.Go(func() { l.write(l.client, ToClient, toClient) })
}

// dial connects to the server once something may reach it.
func (l *link) dial() (net.Conn, error) {
	for {
		s, changed := l.look()
		if s.ways[ToServer] == open {
			break
		}
		l.sleep(changed, forever)
		if err := l.ctx.Err(); err != nil {
			return nil, err
		}
	}
	conn, err := l.reach()
	if err != nil {
		return nil, err
	}
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.orphaned {
		return nil, errors.Join(errors.New("the server's side was closed meanwhile"), conn.Close())
	}
	if err := l.ctx.Err(); err != nil {
		abort(conn)
		return nil, err
	}
	l.server = conn
	return conn, nil
}

// reach connects to the server, and asks again for as long as the proxy's patience lasts.
func (l *link) reach() (net.Conn, error) {
	var dialer net.Dialer
	for until := time.Now().Add(l.proxy.manner.Patience); ; {
		conn, err := dialer.DialContext(l.ctx, "tcp", l.proxy.target)
		if err == nil || l.ctx.Err() != nil || !time.Now().Before(until) {
			return conn, err
		}
		l.sleep(nil, 20*time.Millisecond)
	}
}

// chunk is what was read at once: data, or how the stream ended.
type chunk struct {
	data []byte
	end  error // nil while there is data; io.EOF: no more will come; else the end that sent it is gone
	at   time.Time
	luck float64 // the part of the jitter that it gets, 0 to 1
}

const (
	maxChunks = 256
	chunkSize = 16 << 10
)

// read passes on what comes from one end, with the time it came.
func (l *link) read(from net.Conn, to Direction, chunks chan<- chunk) {
	edit := l.proxy.manner.Edit
	if to == ToClient {
		edit = nil
	}
	var head []byte // what edit has not seen enough of yet
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		data := append(head, buffer[:n]...)
		head = nil
		if edit != nil && len(data) > 0 {
			edited, done := edit(data)
			switch {
			case done:
				data, edit = edited, nil
			case err == nil:
				data, head = nil, data
			}
		}
		if len(data) > 0 {
			l.pass(to, chunks, chunk{data: data, at: time.Now(), luck: rand.Float64()})
		}
		if err != nil {
			l.pass(to, chunks, chunk{end: err, at: time.Now()})
			return
		}
	}
}

func (l *link) pass(to Direction, chunks chan<- chunk, c chunk) {
	if l.swallows(to) {
		return
	}
	select {
	case chunks <- c:
	case <-l.ctx.Done():
	}
}

// swallows tells whether bytes vanish that way, and remembers that some have.
func (l *link) swallows(to Direction) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.proxy.state.ways[to] != swallow {
		return false
	}
	l.holed[to] = true
	return true
}

// write delivers chunks when they are due and the way is open. What the other end will not take any more is dropped:
// that the end is gone shows on the way back.
func (l *link) write(dst net.Conn, to Direction, chunks <-chan chunk) {
	gone := false
	for {
		select {
		case c := <-chunks:
			if !gone {
				gone = l.deliver(dst, to, c) != nil
			}
			if c.end != nil && !l.swallows(to) {
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// deliver returns when the chunk is delivered, swallowed, or can never be delivered.
func (l *link) deliver(dst net.Conn, to Direction, c chunk) error {
	for l.ctx.Err() == nil {
		l.gates[to].Lock()
		s, changed := l.look()
		wait := time.Until(c.at.Add(s.delay + time.Duration(c.luck*float64(s.jitter))))
		switch {
		case l.swallows(to):
			l.gates[to].Unlock()
			return nil
		case s.ways[to] == open && wait <= 0:
			n, err := l.send(dst, c)
			l.gates[to].Unlock()
			if c.data = c.data[n:]; !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
		case s.ways[to] == open:
			l.gates[to].Unlock()
			l.sleep(changed, wait)
		default:
			l.gates[to].Unlock()
			l.sleep(changed, forever)
		}
	}
	return l.ctx.Err()
}

func (l *link) send(dst net.Conn, c chunk) (int, error) {
	switch {
	case c.end == nil:
		return dst.Write(c.data)
	case errors.Is(c.end, io.EOF):
		if half, ok := dst.(interface{ CloseWrite() error }); ok {
			return 0, half.CloseWrite()
		}
		return 0, nil
	default:
		l.proxy.mu.Lock()
		defer l.proxy.mu.Unlock()
		l.reset()
		return 0, nil
	}
}

const forever = time.Duration(math.MaxInt64)

// sleep returns when the state changes, the time is over or the link ends.
func (l *link) sleep(changed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-l.ctx.Done():
	}
}

func (l *link) look() (state, <-chan struct{}) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.proxy.state, l.proxy.changed
}

// abort closes a connection so that the other end sees a reset.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
