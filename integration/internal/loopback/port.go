// Package loopback reserves TCP ports on 127.0.0.1 for servers that are started, stopped and started again.
//
// A port found by listening on :0 and closing again may be taken by another process before its user binds it,
// and again each time the user is down: outgoing connections draw from the same range. A Port therefore stays
// bound, without listening, for as long as it is reserved: the system gives it to no other process,
// connections to it are refused, and a server that sets SO_REUSEADDR (Go's and Java's do) can still listen on
// it. Linux only; elsewhere the port is merely likely to be free.
package loopback

import (
	"net"
	"strconv"
)

// Port is a reserved port of 127.0.0.1. Release it when its server has ended for good.
type Port struct {
	number  int
	release func() error
}

// Reserve picks a free port and reserves it.
func Reserve() (*Port, error) {
	number, release, err := reserve()
	if err != nil {
		return nil, err
	}
	return &Port{number: number, release: release}, nil
}

// Number returns the port number.
func (p *Port) Number() int { return p.number }

// Addr returns "127.0.0.1:port".
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Release gives the port back. It must be called once.
func (p *Port) Release() error { return p.release() }
