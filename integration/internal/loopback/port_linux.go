package loopback

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func reserve() (number int, release func() error, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a loopback port: %w", os.NewSyscallError("socket", err))
	}
	number, err = bindAny(fd)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a loopback port: %w", errors.Join(err, unix.Close(fd)))
	}
	return number, func() error { return os.NewSyscallError("close", unix.Close(fd)) }, nil
}

func bindAny(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	addr, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("getsockname returned %T, not an IPv4 address", name)
	}
	return addr.Port, nil
}
