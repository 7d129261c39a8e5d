package zktest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// A Listener is a way into the server: an address, with what clients see
// there. Several stand for the members of an ensemble.
type Listener struct {
	server  *Server
	name    string
	address string
	replica *replica // what is read here

	socket net.Listener // nil in memory, and while the server is stopped
}

// Listen opens another way in, on a free port, and gives it a name for
// Partition, for From and for the trace. The first one, which Start opens, has
// the name "". All share one state; see Lag.
func (s *Server) Listen(name string) (*Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	address := s.opts.address
	if host, _, err := net.SplitHostPort(address); err == nil && len(s.listeners) > 0 {
		address = net.JoinHostPort(host, "0")
	}
	l := &Listener{server: s, name: name, address: address, replica: s.leader}
	if s.opts.pipe {
		// No socket has this address: Dial knows the listener by it.
		l.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(2181+s.opts.ensemble.number+len(s.listeners)))
	} else if !s.down {
		if err := l.listen(); err != nil {
			return nil, err
		}
	}
	s.listeners = append(s.listeners, l)
	return l, nil
}

// Addr returns the host:port for clients.
func (l *Listener) Addr() string {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	return l.address
}

// Name returns the name that Listen gave it.
func (l *Listener) Name() string { return l.name }

func (l *Listener) listen() error {
	socket, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("zktest: %w", err)
	}
	l.socket = socket
	l.address = socket.Addr().String() // the same port after a restart
	l.server.running.Go(func() {
		acceptAll(socket, func(nc net.Conn) {
			if l.server.opts.tls != nil {
				nc = tls.Server(nc, l.server.opts.tls)
			}
			l.server.serve(l, nc, "")
		})
	})
	return nil
}

// acceptAll serves connections until the socket is closed. Other errors pass:
// most likely there are too many open files.
func acceptAll(socket net.Listener, serve func(net.Conn)) {
	for {
		nc, err := socket.Accept()
		switch {
		case err == nil:
			serve(nc)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			<-time.After(acceptPause)
		}
	}
}

// acceptPause is how long no connection is accepted after a failure to accept one.
const acceptPause = 20 * time.Millisecond

func (l *Listener) shut() {
	if l.socket != nil {
		_ = l.socket.Close()
		l.socket = nil
	}
}

// Dial connects a client in memory, without the network. It has the signature
// of net.Dialer's DialContext; network is ignored, and address chooses among
// listeners: one that is none of theirs means the first. The connection is
// plain, whatever the option TLS says of the network.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.Dialer("")(ctx, network, address)
}

// Dialer returns a function like Dial, whose connections have a name: for
// Partition, for From and for the trace.
func (s *Server) Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		refused := func(err error) error {
			return &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr(address), Err: err}
		}
		s.mu.Lock()
		l := s.listeners[0]
		for _, other := range s.listeners {
			if other.address == address {
				l = other
			}
		}
		s.mu.Unlock()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.ending, func() { cancel(errClosed) })()
		if err := s.faults.reachable(ctx, l.name, name); err != nil {
			return nil, refused(err)
		}
		client, server := net.Pipe()
		if !s.serve(l, server, name) {
			_ = client.Close()
			return nil, refused(syscall.ECONNREFUSED)
		}
		return client, nil
	}
}

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
