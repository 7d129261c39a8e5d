//go:build !linux

package loopback

import (
	"fmt"
	"net"
)

// Elsewhere a second bind is refused even with SO_REUSEADDR, so the port cannot stay bound.
func reserve() (number int, release func() error, err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a loopback port: %w", err)
	}
	addr, ok := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return 0, nil, fmt.Errorf("reserve a loopback port: %w", err)
	}
	if !ok {
		return 0, nil, fmt.Errorf("reserve a loopback port: %v is not a TCP address", listener.Addr())
	}
	return addr.Port, func() error { return nil }, nil
}
